import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.errors import BadInputError
from odf.ingest.fetch import template_variables
from odf.ingest.fetch.templates import Masker, Template, expand_all
from odf.metadata.model import FetchStepUrl, RequestHeader

ENV = {"A": "alpha", "B_2": "beta", "EMPTY": "", "EVIL": "${{ env.A }}"}


def expand(text: str) -> str:
    return expand_all([("url", text)], ENV)[0].text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", "plain"),
        ("x${{ env.A }}y", "xalphay"),
        ("${{env.B_2}}", "beta"),
        ("${{ env.NO || env.A }}", "alpha"),
        ("${{ env.NO || 'it }} is' }}!", "it }} is!"),
        ('${{ env.NO || "two" }}', "two"),
        ("${{ env.NO || 12.5 }}", "12.5"),
        ("${{ env.EMPTY || 'default' }}", ""),
        ("${{ env.A }}${{ env.B_2 }}", "alphabeta"),
        ("${{ env.EVIL }}", "${{ env.A }}"),
        ("$ { {", "$ { {"),
    ],
)
def test_expansion(text, wanted):
    assert expand(text) == wanted


@pytest.mark.parametrize(
    "text", ["${{ A }}", "${{ env.A", "${{ }}", "${{ env.A env.B }}", "${{ env.A ||"]
)
def test_malformed_templates_are_errors(text):
    with pytest.raises(BadInputError, match="url: cannot read the template"):
        expand(text)


def test_all_missing_names_are_reported_together():
    with pytest.raises(BadInputError, match=r"X or Y, Z$") as caught:
        expand_all([("url", "${{ env.X || env.Y }} ${{env.A}}"), ("header h", "${{ env.Z }}")], ENV)
    assert caught.value.problems == ("X or Y", "Z")
    assert "--allow-env" in (caught.value.hint or "")


def test_values_are_masked_but_defaults_are_not():
    (got,) = expand_all([("url", "h/${{ env.A }}/${{ env.NO || 'dev' }}")], ENV)
    assert (got.masked, got.secrets) == ("h/***/dev", ("alpha",))


@given(st.text(min_size=1).filter(str.strip), st.text(), st.text())
def test_a_value_never_survives_masking(secret, before, after):
    cleaned = Masker([secret]).clean(before + secret + after)
    assert secret not in cleaned.replace("***", "") or secret in "***"


def test_masking_hides_percent_encoded_and_contained_values():
    masker = Masker(["a b/c", "b", ""])
    assert Masker(["ab", "abc", "a"]).clean("abc ab a") == "*** *** ***"
    assert masker.clean("a%20b%2Fc a%20b/c a b/c b") == "*** *** *** ***"


def test_a_value_of_blanks_hides_nothing_else():
    assert Masker(["  "]).clean("no such file") == "no such file"


@given(st.text(), st.dictionaries(st.text("ABC", min_size=1), st.text()))
def test_any_text_expands_or_is_refused(text, environment):
    try:
        template = Template.parse(text, "url")
    except BadInputError:
        return
    if not template.missing(environment):
        assert template.expand(environment).text is not None


def test_variables_are_listed_for_consent():
    step = FetchStepUrl(
        "https://x/${{ env.A || env.B }}",
        headers=(RequestHeader("k", "${{ env.C }} ${{ env.A }}"), RequestHeader("l", "plain")),
    )
    assert template_variables(step) == ("A", "B", "C")

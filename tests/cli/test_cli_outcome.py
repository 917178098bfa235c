import io

import pytest

from odf.cli.outcome import Failure, asks_for_one, overall_error, raise_failures
from odf.cli.output import Output, Terminal
from odf.errors import ConflictError, EngineUnavailableError, IntegrityError, LockedError, OdfError

LOCKED = Failure("a", LockedError("a is locked"))
NO_ENGINE = Failure("b", EngineUnavailableError("no engine"))
CORRUPT = Failure("c", IntegrityError("c is corrupt"))


@pytest.mark.parametrize(
    ("failures", "total", "one", "code"),
    [
        ([], 3, False, None),
        ([LOCKED], 1, True, 8),
        ([NO_ENGINE], 1, False, 9),
        ([NO_ENGINE], 3, True, 9),
        ([LOCKED], 3, False, 3),
        ([LOCKED, NO_ENGINE], 2, False, 3),
        ([LOCKED, CORRUPT], 3, False, 7),
    ],
)
def test_the_exit_code_of_several(failures, total, one, code):
    error = overall_error(failures, total=total, one=one)
    assert (error.exit_code if error else None) == code


def test_the_error_of_several_names_them():
    error = overall_error([LOCKED, NO_ENGINE], total=5, one=False)
    assert isinstance(error, OdfError)
    assert error.message == "2 of 5 datasets failed: a, b"
    assert error.details == {"failed": ["a", "b"]}


def test_one_dataset_asked_for_has_its_own_error_with_its_name():
    conflict = Failure("x", ConflictError("diverged", hint="decide"))
    error = overall_error([conflict], total=1, one=True)
    assert isinstance(error, ConflictError)
    assert (error.message, error.hint) == ("x: diverged", "decide")


@pytest.mark.parametrize("message", ["x: diverged", "x is locked"])
def test_a_name_that_is_said_is_not_said_again(message):
    error = overall_error([Failure("x", OdfError(message))], total=1, one=True)
    assert error is not None
    assert error.message == message


@pytest.mark.parametrize("one", [False, True])
def test_each_of_several_errors_is_told_in_full(one):
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(OdfError) as raised:
        raise_failures(Output(Terminal(out, err)), [LOCKED, NO_ENGINE], total=4, one=one)
    assert raised.value.exit_code == (8 if one else 3)
    assert err.getvalue() == ("" if one else "error: a is locked\nerror: b: no engine\n")
    raise_failures(Output(Terminal(out, err)), [], total=4, one=one)


def test_what_asking_for_one_means():
    assert asks_for_one(["a"], everything=False)
    assert not asks_for_one(["a%"], everything=False)
    assert not asks_for_one(["a", "b"], everything=False)
    assert not asks_for_one(["a"], everything=False, recursive=True)
    assert not asks_for_one([], everything=True)

"""Hypothesis strategies that make Arrow types, columns and tables, and other forms of the same."""

import itertools
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

INTEGERS = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint8(): (0, 2**8 - 1),
    pa.uint16(): (0, 2**16 - 1),
    pa.uint32(): (0, 2**32 - 1),
    pa.uint64(): (0, 2**64 - 1),
}
# Stored as integers, so values can be any that fit; converted with a cast, not through datetime.
TICKS = {
    pa.timestamp("ms", "UTC"): (-(10**12), 10**13),
    pa.timestamp("ns"): (-(10**18), 10**18),
    pa.timestamp("s", "Europe/Vienna"): (-(10**9), 10**10),
    pa.time64("us"): (0, 86_399_999_999),
    pa.time32("s"): (0, 86_399),
    pa.date32(): (-10_000, 100_000),
}


def texts():
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def scalars():
    """Pairs of a type that is not nested and a strategy for its values."""
    pairs = [(dtype, st.integers(*bounds)) for dtype, bounds in (INTEGERS | TICKS).items()]
    pairs += [
        (pa.bool_(), st.booleans()),
        (pa.float32(), st.floats(width=32, allow_nan=False)),
        (pa.float64(), st.floats()),
        (pa.string(), texts()),
        (pa.binary(), st.binary(max_size=12)),
        (pa.binary(3), st.binary(min_size=3, max_size=3)),
        (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n) / 100)),
    ]
    return st.sampled_from(pairs)


def optional(values):
    return st.none() | values


@st.composite
def types(draw, depth=2, *, struct=True):
    """A pair of a type, perhaps nested, and a strategy for its values."""
    kind = draw(
        st.sampled_from(["scalar", "scalar", "list", "fixed", "struct"] if depth else ["scalar"])
    )
    if kind == "list":
        dtype, values = draw(types(depth - 1, struct=False))
        return pa.list_(dtype), st.lists(optional(values), max_size=3)
    if kind == "fixed":
        dtype, values = draw(types(depth - 1, struct=False))
        return pa.list_(dtype, 2), st.lists(optional(values), min_size=2, max_size=2)
    if kind == "struct" and struct:
        inner = draw(st.lists(types(depth - 1), min_size=1, max_size=2))
        dtype = pa.struct([(f"f{i}", t) for i, (t, _) in enumerate(inner)])
        row = st.fixed_dictionaries({f"f{i}": optional(v) for i, (_, v) in enumerate(inner)})
        return dtype, row
    return draw(scalars())


def array(dtype, values):
    """Build an array; ticks of times are given as integers, nested ones too."""
    return (
        pa.array(values, _storage(dtype)).cast(dtype)
        if _storage(dtype) != dtype
        else pa.array(values, dtype)
    )


def _storage(dtype):
    if dtype in TICKS:
        return pa.int32() if dtype.bit_width == 32 else pa.int64()
    if pa.types.is_struct(dtype):
        return pa.struct([(f.name, _storage(f.type)) for f in dtype])
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(_storage(dtype.value_type), dtype.list_size)
    if pa.types.is_list(dtype):
        return pa.list_(_storage(dtype.value_type))
    return dtype


@st.composite
def tables(draw, max_rows=12, max_columns=4):
    rows = draw(st.integers(0, max_rows))
    columns = {}
    for index in range(draw(st.integers(1, max_columns))):
        dtype, values = draw(types())
        column = st.lists(
            draw(st.sampled_from([values, optional(values)])), min_size=rows, max_size=rows
        )
        columns[f"c{index}"] = array(dtype, draw(column))
    return pa.table(columns)


@st.composite
def split(draw, table):
    """The same rows in other batches, each a slice with an offset of its own."""
    cuts = sorted(draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    bounds = [0, *cuts, table.num_rows]
    whole = table.combine_chunks()
    parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
    return [batch for part in parts for batch in part.to_batches()]


def other_forms(column):
    """The same values of a column in other ways of storing them."""
    dtype = column.type
    forms = [column]
    if dtype == pa.string():
        forms += [column.cast(pa.large_string()), column.cast(pa.string_view())]
    if dtype == pa.binary():
        forms += [column.cast(pa.large_binary()), column.cast(pa.binary_view())]
    if dtype in (pa.string(), pa.binary(), pa.int64(), pa.int32()):
        forms.append(column.dictionary_encode())
        forms.append(pc.run_end_encode(column))
    if pa.types.is_list(dtype):
        forms.append(column.cast(pa.large_list(dtype.value_type)))
    if dtype == pa.list_(pa.string()):
        forms.append(column.cast(pa.list_(pa.string_view())))
    return forms

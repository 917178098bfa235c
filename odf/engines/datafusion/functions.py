"""Which of DataFusion's built-in functions queries may use: a committed list, not a rule.

A session knows the functions of this list and no others, so that nothing can be called in another
way. A test compares the list with the registry of the pinned DataFusion: a new function is a
decision and not an accident.
"""

# ruff: noqa: SIM905  # hundreds of names are easier to read as words than as string literals

from typing import Final

AGGREGATES: Final = frozenset(
    """
    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar covar_pop
    covar_samp first_value grouping last_value max mean median min nth_value percentile_cont
    quantile_cont regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy stddev stddev_pop stddev_samp string_agg sum var var_pop var_population
    var_samp var_sample
    """.split()
)
"""Functions that make one value of many rows."""

WINDOW_FUNCTIONS: Final = frozenset(
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank "
    "row_number".split()
)
"""Functions that look at other rows."""

SCALARS: Final = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh cot degrees exp factorial floor
    gcd iszero isnan lcm ln log log10 log2 nanvl pi pow power radians round signum sin sinh sqrt
    tan tanh trunc

    ascii bit_length btrim char_length character_length chr concat concat_ws contains ends_with
    find_in_set initcap instr left length levenshtein lower lpad ltrim octet_length overlay
    position regexp_count regexp_instr regexp_like regexp_match regexp_replace repeat replace
    reverse right rpad rtrim split_part starts_with strpos substr substr_index substring
    substring_index to_hex translate trim upper

    decode digest encode md5 sha224 sha256 sha384 sha512

    date_bin date_format date_part date_trunc datepart datetrunc from_unixtime make_date make_time
    to_char to_date to_local_time to_time to_timestamp to_timestamp_micros to_timestamp_millis
    to_timestamp_nanos to_timestamp_seconds to_unixtime

    coalesce greatest ifnull least nullif nvl nvl2

    arrow_cast arrow_try_cast arrow_typeof cast_to_type try_cast_to_type

    array_add array_any_value array_append array_avg array_cat array_compact array_concat
    array_contains array_dims array_distance array_distinct array_element array_empty array_except
    array_extract array_has array_has_all array_has_any array_indexof array_intersect array_join
    array_length array_max array_min array_ndims array_normalize array_pop_back array_pop_front
    array_position array_positions array_prepend array_product array_push_back array_push_front
    array_remove array_remove_all array_remove_n array_repeat array_replace array_replace_all
    array_replace_n array_resize array_reverse array_scale array_slice array_sort array_subtract
    array_sum array_to_string array_union arrays_overlap arrays_zip cardinality cosine_distance
    dot_product element_at empty flatten generate_series inner_product list_add list_any_value
    list_append list_avg list_cat list_compact list_concat list_contains list_dims list_distance
    list_distinct list_element list_empty list_except list_extract list_has list_has_all
    list_has_any list_indexof list_intersect list_join list_length list_max list_ndims
    list_normalize list_pop_back list_pop_front list_position list_positions list_prepend
    list_product list_push_back list_push_front list_remove list_remove_all list_remove_n
    list_repeat list_replace list_replace_all list_replace_n list_resize list_reverse list_scale
    list_slice list_sort list_subtract list_sum list_to_string list_union list_zip make_array
    make_list range string_to_array string_to_list

    get_field map map_entries map_extract map_keys map_values named_struct row struct
    union_extract union_tag
    """.split()
)
"""Functions of one row."""

ALLOWED: Final = AGGREGATES | WINDOW_FUNCTIONS | SCALARS
"""All built-in functions that a query may call; those for JSON are our own (`json_functions`)."""

_NOW: Final = "it depends on when the query runs"
_RANDOM: Final = "it gives other values each time"
_PLACE: Final = "it depends on how the query is run"
_SKETCH: Final = "its result depends on the order of evaluation"
_HOLD: Final = "it shows how columns are held, not what is in them"
_CONSTANT: Final = "it gives rows that come from no input"

REFUSED: Final = (
    dict.fromkeys(
        "current_date current_time current_timestamp now today".split(),
        _NOW,
    )
    | dict.fromkeys("rand random uuid".split(), _RANDOM)
    | dict.fromkeys("file_row_index input_file_name version".split(), _PLACE)
    | dict.fromkeys(
        """
        approx_distinct approx_median approx_percentile_cont approx_percentile_cont_with_weight
        """.split(),
        _SKETCH,
    )
    | dict.fromkeys("arrow_field arrow_metadata with_metadata".split(), _HOLD)
)
"""Functions that a query may not call, with the reason."""

TABLE_FUNCTIONS: Final = dict.fromkeys(("generate_series", "range"), _CONSTANT)
"""Functions that are used as tables, none of which is allowed, with the reason."""

SPARK_EQUIVALENTS: Final = {
    "from_json": "json_get_str, json_get_int and the like",
    "get_json_object": "json_get_str(text, 'key')",
    "date_add": "date + INTERVAL '1 day'",
    "datediff": "a - b",
    "year": "date_part('year', time)",
    "month": "date_part('month', time)",
    "explode": "UNNEST(list)",
    "if": "CASE WHEN … THEN … ELSE … END",
    "size": "cardinality(list)",
    "timestamp_millis": "to_timestamp_millis(number)",
    "timestamp_seconds": "to_timestamp_seconds(number)",
    "unix_timestamp": "to_unixtime(time)",
}
"""What people write for Spark, and what it is called here."""

TYPE_NAMES: Final = {
    "LONG": "BIGINT",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "BINARY": "BYTEA",
    "NUMBER": "DECIMAL(p, s)",
}
"""Names of types that people write for Spark or the read schema, and what they are called here."""

EXACT_EQUIVALENTS: Final = {
    "approx_distinct": "write count(DISTINCT …)",
    "approx_median": "write median(…)",
    "approx_percentile_cont": "write percentile_cont(…) WITHIN GROUP (ORDER BY …)",
    "approx_percentile_cont_with_weight": "write percentile_cont(…) WITHIN GROUP (ORDER BY …)",
}
"""Exact functions in place of those that estimate."""

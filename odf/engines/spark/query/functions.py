"""Which of Spark's built-in functions queries may use: a committed list, not a rule.

A function is here if its result depends on its arguments alone. A test compares the list with
the registry of the pinned Spark, so that a new function is a decision and not an accident.
"""

# ruff: noqa: SIM905  # hundreds of names are easier to read as words than as string literals

from typing import Final

AGGREGATES: Final = frozenset(
    """
    any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor
    bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set
    corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping
    grouping_id histogram_numeric hll_sketch_agg hll_union_agg kurtosis last last_value listagg
    max max_by mean median min min_by mode percentile percentile_approx percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp
    string_agg sum try_avg try_sum var_pop var_samp variance
    """.split()
)
"""Functions that make one value of many rows."""

WINDOW_FUNCTIONS: Final = frozenset(
    "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number".split()
)
"""Functions that look at other rows."""

_SCALARS: Final = frozenset(
    """
    add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part
    date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
    extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval
    make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
    make_ym_interval minute month monthname months_between next_day quarter second session_window
    time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
    time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_nanos
    timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
    to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp
    unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear
    window window_time year

    % * + - / abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos
    cosh cot csc degrees div e exp expm1 factorial floor greatest hex hypot least ln log log10
    log1p log2 mod negative pi pmod positive pow power radians rint round sec sign signum sin
    sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex width_bucket

    ! < <= <=> = == > >= and equal_null ilike in isnan isnotnull isnull like not or regexp
    regexp_like rlike != <> ||

    array array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_union arrays_overlap arrays_zip flatten get sequence slice
    sort_array

    ascii base64 bit_length btrim char char_length character_length chr collate collation
    concat_ws contains decode elt encode endswith find_in_set format_number format_string
    from_base32 initcap instr is_valid_utf8 jaro_winkler_similarity lcase left len length
    levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay
    position printf quote regexp_count regexp_extract regexp_extract_all regexp_instr
    regexp_replace regexp_substr repeat replace right rpad rtrim sentences soundex space split
    split_part startswith substr substring substring_index to_base32 to_binary to_char to_number
    to_varchar translate trim try_to_binary try_to_number try_validate_utf8 ucase unbase64 upper
    validate_utf8

    hll_sketch_estimate hll_union

    to_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
    xpath_short xpath_string

    cardinality concat element_at reverse size try_element_at

    bigint binary boolean cast date decimal double float int smallint string time timestamp
    tinyint

    is_valid_variant is_variant_null parse_json schema_of_variant to_variant_object
    try_parse_json try_variant_array_append try_variant_get try_variant_insert try_variant_set
    variant_array_append variant_delete variant_get variant_insert variant_set
    variant_strip_nulls

    from_csv schema_of_csv to_csv

    aes_decrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count hmac
    raise_error try_aes_decrypt typeof

    & << >> >>> ^ bit_count bit_get getbit shiftleft shiftright shiftrightunsigned | ~

    parse_url try_parse_url try_url_decode url_decode url_encode

    crc32 hash md5 sha sha1 sha2 xxhash64

    vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize

    between coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull case

    aggregate array_sort exists filter forall map_filter map_zip_with reduce transform
    transform_keys transform_values zip_with

    from_json get_json_object json_array_length json_object_keys schema_of_json to_json

    map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys
    map_values str_to_map

    named_struct struct
    """.split()
)

GENERATORS: Final = frozenset(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack
    variant_explode variant_explode_outer
    """.split()
)
"""Functions that make several rows of one; also usable as tables."""

ALLOWED: Final = AGGREGATES | WINDOW_FUNCTIONS | _SCALARS | GENERATORS
"""All functions that a query may call."""

_NOW: Final = "it depends on when the query runs"
_RANDOM: Final = "it gives other values each time"
_PLACE: Final = "it depends on how and by whom the query is run"
_OUTSIDE: Final = "it reaches outside the query"
_SKETCH: Final = "its result depends on the order of evaluation"
_ABSENT: Final = "it needs what this engine does not have"

REFUSED: Final = (
    dict.fromkeys(
        "curdate current_date current_time current_timestamp localtime localtimestamp now".split(),
        _NOW,
    )
    | dict.fromkeys("aes_encrypt rand randn random randstr shuffle uniform uuid".split(), _RANDOM)
    | dict.fromkeys(
        """
        collations current_catalog current_database current_path current_schema current_timezone
        current_user input_file_block_length input_file_block_start input_file_name
        monotonically_increasing_id session_user spark_partition_id sql_keywords user version
        """.split(),
        _PLACE,
    )
    | dict.fromkeys(
        """
        from_avro from_protobuf from_xml java_method python_worker_logs reflect schema_of_avro
        schema_of_xml to_avro to_protobuf try_reflect
        """.split(),
        _OUTSIDE,
    )
    | dict.fromkeys(
        """
        approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate
        collect_union kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
        kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
        kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
        kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
        kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
        kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
        kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
        kll_sketch_to_string_float theta_difference theta_intersection theta_intersection_agg
        theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg
        tuple_difference_double tuple_difference_integer tuple_difference_theta_double
        tuple_difference_theta_integer tuple_intersection_agg_double
        tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer
        tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_agg_double
        tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
        tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
        tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer
        tuple_union_double tuple_union_integer tuple_union_theta_double
        tuple_union_theta_integer vector_avg vector_sum
        """.split(),
        _SKETCH,
    )
    | dict.fromkeys(
        """
        counter_diff measure st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid range
        """.split(),
        _ABSENT,
    )
)
"""Functions that a query may not call, with the reason."""

REFUSED_EXPRESSIONS: Final = {
    "CurrentTimestamp": ("current_timestamp", _NOW),
    "Now": ("now", _NOW),
    "CurrentDate": ("current_date", _NOW),
    "CurrentTime": ("current_time", _NOW),
    "LocalTimestamp": ("localtimestamp", _NOW),
    "CurrentTimestampLike": ("current_timestamp", _NOW),
    "CurDateExpressionBuilder": ("curdate", _NOW),
    "CurrentTimeZone": ("current_timezone", _PLACE),
    "CurrentUser": ("current_user", _PLACE),
    "CurrentCatalog": ("current_catalog", _PLACE),
    "CurrentDatabase": ("current_database", _PLACE),
    "CurrentPath": ("current_path", _PLACE),
    "SparkVersion": ("version", _PLACE),
    "AesEncrypt": ("aes_encrypt", _RANDOM),
    "CallMethodViaReflection": ("reflect", _OUTSIDE),
    "TryReflect": ("try_reflect", _OUTSIDE),
}
"""Expression classes that call themselves deterministic and are not, by function and reason."""

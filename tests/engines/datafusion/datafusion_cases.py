"""What the documentation says about functions, as data: each line is a row of a table there."""

from datetime import UTC, date, datetime
from typing import Any, Final

NEW_YEAR: Final = datetime(2020, 1, 1, tzinfo=UTC)

TIMES: Final[dict[str, Any]] = {
    "to_timestamp('2020-01-01')": NEW_YEAR,
    "to_timestamp('2020-01-01T00:00:00Z')": NEW_YEAR,
    "to_timestamp('2020-01-01 02:00:00+02:00')": NEW_YEAR,
    "to_timestamp('01/01/2020', '%d/%m/%Y')": NEW_YEAR,
    "to_timestamp('2020-01-01 00:00:00 +0000', '%Y-%m-%d %H:%M:%S %z')": NEW_YEAR,
    "to_timestamp(1577836800)": NEW_YEAR,
    "to_timestamp_seconds(1577836800)": NEW_YEAR,
    "to_timestamp_millis(1577836800000)": NEW_YEAR,
    "to_timestamp_micros(1577836800000000)": NEW_YEAR,
    "CAST('2020-01-01T00:00:00Z' AS TIMESTAMP)": NEW_YEAR,
    "CAST('2020-01-01' AS TIMESTAMP)": NEW_YEAR,
    "TIMESTAMP '2020-01-01 00:00:00'": NEW_YEAR,
    "CAST(1577836800000 AS BIGINT)": 1577836800000,
    "to_date('2020-01-01')": date(2020, 1, 1),
    "to_date('01.02.2020', '%d.%m.%Y')": date(2020, 2, 1),
    "CAST('2020-01-01' AS DATE)": date(2020, 1, 1),
    "date_trunc('month', TIMESTAMP '2020-01-17 03:04:05')": NEW_YEAR,
    "date_part('year', TIMESTAMP '2020-01-17 03:04:05')": 2020,
    "EXTRACT(MONTH FROM DATE '2020-05-17')": 5,
    "date_bin(INTERVAL '1 hour', TIMESTAMP '2020-01-01 00:40:00')": NEW_YEAR,
    "DATE '2019-12-31' + INTERVAL '1 day'": date(2020, 1, 1),
    "to_char(DATE '2020-01-02', '%d.%m.%Y')": "02.01.2020",
    "to_unixtime('2020-01-01T00:00:00Z')": 1577836800,
    "TRY_CAST('soon' AS TIMESTAMP)": None,
}

JSON: Final[dict[str, Any]] = {
    """json_get_str('{"a": "x"}', 'a')""": "x",
    """json_get_str('{"a": 1}', 'a')""": None,
    """json_get_str(json_get_json('{"a": {"b": "x"}}', 'a'), 'b')""": "x",
    """json_get_str('["p", "q"]', '1')""": "q",
    """json_get_int('{"a": 12}', 'a')""": 12,
    """json_get_int('{"a": 1.5}', 'a')""": None,
    """json_get_int('{"a": 123456789012345678901}', 'a')""": None,
    """json_get_float('{"a": 12}', 'a')""": 12.0,
    """json_get_bool('{"a": true}', 'a')""": True,
    """json_as_text('{"a": 1.50}', 'a')""": "1.50",
    """json_as_text('{"a": "x"}', 'a')""": "x",
    """json_as_text('{"a": null}', 'a')""": None,
    """json_as_text('{"a": {"b": [1, "é"]}}', 'a')""": '{"b":[1,"é"]}',
    """json_get_json('{"a": "x"}', 'a')""": '"x"',
    """json_contains('{"a": null}', 'a')""": True,
    """json_contains('{"a": null}', 'b')""": False,
    """json_length('[1, 2, 3]')""": 3,
    """json_object_keys('{"b": 1, "a": 2}')""": ["b", "a"],
    """json_get_str('no JSON', 'a')""": None,
    """json_get_str('{"a": NaN}', 'a')""": None,
    """json_get_str(NULL, 'a')""": None,
}

OTHERS: Final[dict[str, Any]] = {
    "CAST('12' AS INT)": 12,
    "CAST('12' AS BIGINT)": 12,
    "CAST('1.5' AS DOUBLE)": 1.5,
    "TRY_CAST('x' AS INT)": None,
    "CAST(1 AS VARCHAR)": "1",
    "CASE WHEN 1 > 0 THEN 'yes' ELSE 'no' END": "yes",
    "COALESCE(NULL, 'x')": "x",
    "NULLIF('', '')": None,
    "regexp_replace('a-b', '-', '_')": "a_b",
    "split_part('a,b', ',', 2)": "b",
    "'a' || 'b'": "ab",
    "SUBSTRING('abc' FROM 2 FOR 1)": "b",
}

"""Queries with a bounded state, and the same for DuckDB with the completion time in column `c`."""

from dataclasses import dataclass

from tests.engines.spark.stateful.histories import D, T, U
from tests.engines.spark.stateful.replay import Shape


@dataclass(frozen=True, slots=True)
class Case:
    """A query over some inputs; `opinion` is empty where DuckDB cannot say the same."""

    query: str
    shapes: dict[str, Shape]
    opinion: str = ""


CASES = {
    "tumbling": Case(
        """
        SELECT window.end AS event_time, k, sum(v) AS s, count(*) AS n
        FROM t GROUP BY window(event_time, '12 hours'), k HAVING count(*) < 5
        """,
        {"t": T},
        """
        SELECT w + INTERVAL 12 HOUR AS e, k, sum(v ORDER BY nr) AS s, count(*) AS n, e AS c
        FROM (SELECT *, time_bucket(INTERVAL 12 HOUR, event_time, TIMESTAMP '1970-01-01') AS w
              FROM t)
        GROUP BY w, k HAVING count(*) < 5
        """,
    ),
    "sliding, key not selected, of two inputs": Case(
        """
        SELECT window.start AS event_time, avg(v) AS s
        FROM (SELECT event_time, k, v FROM t UNION ALL SELECT happened, upper(k), v FROM u)
        GROUP BY window(event_time, '1 day', '8 hours'), k
        """,
        {"t": T, "u": U},
        """
        SELECT w AS e, avg(v ORDER BY i, nr) AS s, w + INTERVAL 1 DAY AS c
        FROM (
            SELECT *, time_bucket(INTERVAL 8 HOUR, event_time, TIMESTAMP '1970-01-01')
                - j * INTERVAL 8 HOUR AS w
            FROM (SELECT 0 AS i, nr, event_time, k, v FROM t
                  UNION ALL SELECT 1, nr, happened, upper(k), v FROM u),
                 (SELECT unnest([0, 1, 2]) AS j))
        GROUP BY w, k
        """,
    ),
    "sessions, of two inputs": Case(
        """
        SELECT session_window.end AS event_time, sum(v) AS v, count(*) AS n
        FROM (SELECT event_time, k, v FROM t UNION ALL SELECT happened, k, v FROM u)
        GROUP BY session_window(event_time, '9 hours'), upper(k)
        HAVING session_window.end > TIMESTAMP '1969-12-31 12:00:00'
        """,
        {"t": T, "u": U},
        """
        SELECT max(event_time) + INTERVAL 9 HOUR AS e, sum(v ORDER BY event_time, i, nr) AS v,
            count(*) AS n, e AS c
        FROM (SELECT *, sum(first) OVER (PARTITION BY k ORDER BY event_time) AS g
              FROM (SELECT *, CASE WHEN event_time - lag(event_time) OVER (
                        PARTITION BY k ORDER BY event_time) <= INTERVAL 9 HOUR THEN 0 ELSE 1 END
                        AS first
                    FROM (SELECT 0 AS i, nr, event_time, upper(k) AS k, v FROM t
                          UNION ALL SELECT 1, nr, happened, upper(k), v FROM u)))
        GROUP BY k, g HAVING e > TIMESTAMP '1969-12-31 12:00:00'
        """,
    ),
    "sessions of their own length, in order": Case(
        """
        SELECT session_window.start AS event_time, k, sum(v) AS s, collect_list(v) AS l
        FROM t WHERE v <> 3.3
        GROUP BY k, session_window(event_time, CASE WHEN v > 5 THEN '12 hours' ELSE '4 hours' END)
        """,
        {"t": T},
    ),
    "by event time, in order": Case(
        """
        SELECT event_time, k, array_join(collect_list(CAST(v AS STRING)), '|') AS l
        FROM t GROUP BY event_time, k
        """,
        {"t": T},
    ),
    "distinct": Case(
        "SELECT DISTINCT event_time, k FROM t",
        {"t": T},
        "SELECT DISTINCT event_time, k, event_time AS c FROM t",
    ),
    "union": Case(
        "SELECT event_time, k FROM t UNION SELECT happened, k FROM u",
        {"t": T, "u": U},
        """
        SELECT *, event_time AS c
        FROM (SELECT event_time, k FROM t UNION SELECT happened, k FROM u)
        """,
    ),
    "inner": Case(
        """
        SELECT a.event_time, a.k, a.v, b.v AS w FROM t a JOIN u b ON a.k = b.k AND b.happened
        BETWEEN a.event_time - INTERVAL 3 HOURS AND a.event_time + INTERVAL 12 HOURS
        """,
        {"t": T, "u": U},
        """
        SELECT a.event_time, a.k, a.v, b.v AS w, greatest(a.event_time, b.happened) AS c
        FROM t a JOIN u b ON a.k = b.k AND b.happened
        BETWEEN a.event_time - INTERVAL 3 HOURS AND a.event_time + INTERVAL 12 HOURS
        """,
    ),
    "inner, by a filter over other names": Case(
        """
        SELECT greatest(at, later) AS event_time, v, w
        FROM (SELECT t.event_time AS at, u.happened AS later, t.v, u.v AS w FROM t JOIN u USING (k))
        WHERE later BETWEEN at - INTERVAL 7 HOURS AND at + INTERVAL 2 HOURS
        """,
        {"t": T, "u": U},
        """
        SELECT greatest(event_time, happened) AS e, t.v, u.v AS w, e AS c FROM t JOIN u USING (k)
        WHERE happened BETWEEN event_time - INTERVAL 7 HOUR AND event_time + INTERVAL 2 HOUR
        """,
    ),
    "left, only later": Case(
        """
        SELECT a.event_time, a.k, a.v, b.v AS w FROM t a LEFT JOIN u b ON a.k = b.k AND a.v < b.v
        AND b.happened > a.event_time + INTERVAL 2 HOURS
        AND b.happened < a.event_time + INTERVAL 20 HOURS
        """,
        {"t": T, "u": U},
        """
        SELECT a.event_time, a.k, a.v, b.v AS w,
            CASE WHEN b.happened IS NULL THEN a.event_time + INTERVAL 20 HOUR ELSE b.happened END
            AS c
        FROM t a LEFT JOIN u b ON a.k = b.k AND a.v < b.v
        AND b.happened > a.event_time + INTERVAL 2 HOURS
        AND b.happened < a.event_time + INTERVAL 20 HOURS
        """,
    ),
    "full": Case(
        """
        SELECT coalesce(a.event_time, b.happened) AS event_time, a.k, b.k AS l, a.v, b.v AS w
        FROM t a FULL JOIN u b ON a.k = b.k AND b.happened
        BETWEEN a.event_time - INTERVAL 9 HOURS AND a.event_time + INTERVAL 4 HOURS
        """,
        {"t": T, "u": U},
        """
        SELECT coalesce(a.event_time, b.happened) AS event_time, a.k, b.k AS l, a.v, b.v AS w,
            CASE WHEN b.happened IS NULL THEN a.event_time + INTERVAL 4 HOUR
                WHEN a.event_time IS NULL THEN b.happened + INTERVAL 9 HOUR
                ELSE greatest(a.event_time, b.happened) END AS c
        FROM t a FULL JOIN u b ON a.k = b.k AND b.happened
        BETWEEN a.event_time - INTERVAL 9 HOURS AND a.event_time + INTERVAL 4 HOURS
        """,
    ),
    "full, by equal time": Case(
        "SELECT event_time, a.k, a.v, b.v AS w FROM t a FULL JOIN s b USING (event_time, k)",
        {"t": T, "s": T},
        """
        SELECT event_time, a.k, a.v, b.v AS w, event_time AS c
        FROM t a FULL JOIN s b USING (event_time, k)
        """,
    ),
    "right, of dates and times": Case(
        """
        SELECT b.event_time, b.k, a.v, b.v AS w
        FROM t a RIGHT JOIN d b ON a.k = b.k AND CAST(a.event_time AS DATE) = b.event_time
        """,
        {"t": T, "d": D},
    ),
    "anti": Case(
        """
        SELECT a.event_time, a.k FROM t a LEFT ANTI JOIN u b ON a.k = b.k AND b.happened
        BETWEEN a.event_time - INTERVAL 2 HOURS AND a.event_time + INTERVAL 6 HOURS
        """,
        {"t": T, "u": U},
        """
        SELECT a.event_time, a.k, a.event_time + INTERVAL 6 HOUR AS c
        FROM t a ANTI JOIN u b ON a.k = b.k AND b.happened
        BETWEEN a.event_time - INTERVAL 2 HOURS AND a.event_time + INTERVAL 6 HOURS
        """,
    ),
}

"""LanceDB embedded, as its Python package has it: rows a second of `merge_insert` upserts.

Owns: writers in a closed loop, each sending its next batch as soon as the last one is committed, for a number
of seconds. Reads a JSON list of cases from stdin, writes one JSON object a case to stdout: requests, rows and
seconds it took, milliseconds of each request, errors (conflicts that LanceDB did not resolve itself) and the
first of them. Each case has a new table. Does not own: which cases there are (the benchmark that starts it).

A case: `path` is `plain` (the table's own commits) or `memwal` (LanceDB's LSM write path), `batches` an Arrow
file whose last batch is written before the clock starts, `writers`, `seconds`, `defaults` (settings of the
MemWAL writer).
"""

import asyncio
import json
import sys
import time

import lancedb
import pyarrow as pa
from lancedb import LsmWriteSpec


async def run(uri: str, number: int, case: dict) -> dict:
    with pa.ipc.open_file(case["batches"]) as file:
        made = [pa.Table.from_batches([file.get_batch(index)]) for index in range(file.num_record_batches)]
    db = await lancedb.connect_async(uri)
    table = await db.create_table(f"t{number}", schema=made[0].schema)
    is_memwal = case["path"] == "memwal"
    if is_memwal:
        spec = LsmWriteSpec.unsharded().with_maintained_indexes([])
        await table.set_lsm_write_spec(spec.with_writer_config_defaults(case["defaults"]))

    async def upsert(batch: pa.Table) -> None:
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        await (merge.use_lsm(True) if is_memwal else merge).execute(batch)

    await upsert(made[-1])
    result = await loop(upsert, made[:-1], case)
    rows = await count(table, is_memwal)
    wanted = (min(result["requests"], len(made) - 1) + 1) * made[0].num_rows
    if rows != wanted and not result["errors"]:
        raise SystemExit(f"{case}: the table holds {rows} rows, {wanted} were acknowledged")
    if is_memwal:
        await table.close_lsm_writers()
    return result


async def count(table, is_memwal: bool) -> int:
    if not is_memwal:
        return await table.count_rows()
    # Its `count_rows` counts the base alone.
    return (await table.query().use_lsm(True).select(["id"]).to_arrow()).num_rows


async def loop(upsert, made: list[pa.Table], case: dict) -> dict:
    latencies, errors, first, next_batch = [], 0, None, 0
    started = time.perf_counter()
    end = started + case["seconds"]

    async def writer() -> None:
        nonlocal errors, first, next_batch
        while time.perf_counter() < end:
            batch, next_batch = made[next_batch % len(made)], next_batch + 1
            began = time.perf_counter()
            try:
                await upsert(batch)
                latencies.append((time.perf_counter() - began) * 1e3)
            except (RuntimeError, ValueError, OSError) as error:
                errors, first = errors + 1, first or str(error)[:300]

    await asyncio.gather(*(writer() for _ in range(case["writers"])))
    seconds = time.perf_counter() - started
    rows = len(latencies) * made[0].num_rows
    return {
        "requests": len(latencies), "rows": rows, "seconds": seconds, "latencies_ms": latencies,
        "errors": errors, "first_error": first,
    }


def main() -> None:
    uri = sys.argv[1]
    for number, case in enumerate(json.load(sys.stdin)):
        print(json.dumps(asyncio.run(run(uri, number, case))), flush=True)


if __name__ == "__main__":
    main()

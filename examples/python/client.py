"""A connection to a broker: who calls, repeats that are safe, reasons that can be read."""

import datetime
import pathlib
import sys
import uuid

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

# Where generate.py puts the client if nothing else is said.
GENERATED = pathlib.Path(__file__).resolve().parents[2] / "target" / "python-client"


def find_generated(folder=None):
    """Lets the generated modules be imported; they import each other from the top."""
    folder = pathlib.Path(folder) if folder else GENERATED
    if not (folder / "baton").is_dir():
        sys.exit("no generated client in %s; run generate.py" % folder)
    sys.path.insert(0, str(folder))


def request_id():
    """A new id for a change. Repeating a call with the same id and content changes nothing."""
    return str(uuid.uuid4())


def now():
    """The time in microseconds; a finer one has no canonical form."""
    from google.protobuf import timestamp_pb2
    at = timestamp_pb2.Timestamp()
    at.FromDatetime(datetime.datetime.now(datetime.timezone.utc))
    return at


class Refused(Exception):
    """The broker said no. `reason` is one of baton/v1/error.proto; `facts` are ids and values."""

    def __init__(self, error):
        super().__init__(error.details())
        self.code, self.reason, self.facts, self.findings = error.code(), "", {}, []
        status = rpc_status.from_call(error)
        for detail in status.details if status else []:
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                self.reason, self.facts = info.reason, dict(info.metadata)
            elif detail.Unpack(bad):
                self.findings = [(v.field, v.description) for v in bad.field_violations]

    def __str__(self):
        found = "".join("\n  %s: %s" % finding for finding in self.findings)
        return "%s: %s%s" % (self.reason or self.code, self.args[0], found)


class Connection:
    """Stubs of the three services, called as one principal."""

    def __init__(self, address, principal, token=None):
        from baton.v1 import agent_service_pb2_grpc, handoff_service_pb2_grpc
        from baton.v1 import task_service_pb2_grpc
        self.channel = grpc.insecure_channel(address.removeprefix("http://"))
        self.agents = agent_service_pb2_grpc.AgentServiceStub(self.channel)
        self.tasks = task_service_pb2_grpc.TaskServiceStub(self.channel)
        self.handoffs = handoff_service_pb2_grpc.HandoffServiceStub(self.channel)
        # With authentication the token says who calls; without, the caller says it itself.
        if token:
            self.metadata = [("authorization", "Bearer " + token)]
        else:
            self.metadata = [("baton-principal", principal)]

    def call(self, method, request, seconds=10, attempts=3):
        """Calls. UNAVAILABLE may have happened or not: the same request_id settles it."""
        while True:
            attempts -= 1
            try:
                return method(request, timeout=seconds, metadata=self.metadata, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or attempts == 0:
                    raise Refused(error) from error

    def watch(self, method, request):
        """A stream. When it breaks, open it again: it begins with what is open."""
        try:
            yield from method(request, metadata=self.metadata, wait_for_ready=True)
        except grpc.RpcError as error:
            raise Refused(error) from error


# --- fields that can say which kind of nothing they hold -------------------------------------


def text(value):
    from baton.v1 import common_pb2
    return common_pb2.TextField(value=value)


def texts(*items):
    from baton.v1 import common_pb2
    return common_pb2.TextListField(value=common_pb2.TextList(items=items))


def not_applicable():
    from baton.v1 import common_pb2
    absence = common_pb2.Absence(not_applicable=common_pb2.NotApplicable())
    return common_pb2.TextField(absence=absence)

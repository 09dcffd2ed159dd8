#!/usr/bin/env python3
"""A sender: creates a task about files, puts an artifact and a checkpoint, and offers the task.

Usage: offer.py --address http://127.0.0.1:7717 [--principal agent:writer] [--token TOKEN]
                [--to agent:reviewer] [--generated DIR] FILE...

Waits until the offer has ended, follows the task's events, and checks every digest on the way.
"""

import argparse
import datetime
import pathlib

import canonical
import client
from client import request_id, text, texts

OBJECTIVE = "Review what the files say"
CRITERIA = ["a review exists"]
STOP = ["the review is put", "scope exceeded -> stop"]


def source(path):
    """One authoritative input, as it is now."""
    content = path.read_bytes()
    digest = canonical.sha256(content)
    return {"entity_id": "file:" + path.name, "version": digest[7:19], "digest": digest,
            "location": path.resolve().as_uri(), "size_bytes": len(content),
            "digest_algorithm": "sha-256", "digested": "raw bytes of the file",
            "obtained_at": client.now()}


def folders(files):
    return sorted({path.resolve().parent.as_uri() + "/*" for path in files})


def create(baton, files, verifier):
    """Creates the task: the contract with its seven fields, and the owner's authority."""
    from baton.v1 import contract_pb2, task_service_pb2 as pb
    label = {"assertion": "draft", "label": "observed"}
    contract = contract_pb2.OperatingContract(
        contract_version=text("0.2"), objective=text(OBJECTIVE),
        completion_criteria=texts(*CRITERIA), stop_condition=texts(*STOP),
        allowed_actions=texts("read", "draft"), prohibited_actions=texts("write", "send"))
    contract.authorization_scope.value.CopyFrom(scope(files, "", days=2))
    contract.authoritative_inputs.value.items.extend(
        contract_pb2.SourceRef(entity_id="file:" + path.name, scope="all of it") for path in files)
    contract.expected_artifacts.value.items.add(role="review", count=1)
    contract.evidence_labels.value.items.add(**label)
    return baton.call(baton.tasks.CreateTask, pb.CreateTaskRequest(
        request_id=request_id(), contract=contract, policy={"verifiers": [verifier]},
        scope=scope(files, "", days=2), instance_id="offer-1", task_class="review"))


def scope(files, principal, days):
    from baton.v1 import scope_pb2
    made = scope_pb2.AuthorizationScope(
        principal=principal, resources=folders(files), operations=["read", "draft"])
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    made.expires_at.FromDatetime(until.replace(microsecond=0))
    return made


def work(baton, created, files):
    """Drafts an artifact and fixes the resume point: done, not done, unknown, next."""
    from baton.v1 import checkpoint_pb2, task_service_pb2 as pb
    task_id = created.outcome.task_id
    guard = {"epoch": 1, "expected_revision": created.outcome.revision, "instance_id": "offer-1"}
    draft = "".join("%s has %d bytes\n" % (p.name, p.stat().st_size) for p in files)
    put = baton.call(baton.tasks.PutArtifact, pb.PutArtifactRequest(
        request_id=request_id(), task_id=task_id, guard=guard,
        descriptor={"id": "draft", "type": "document", "media_type": "text/plain",
                    "version": "v1", "role": "draft", "digest_algorithm": "sha-256",
                    "location": "baton://tasks/%s/artifacts/draft" % task_id,
                    "digested": "the text as UTF-8"},
        parts=[{"media_type": "text/plain", "text": draft}]))
    if put.descriptor.digest != canonical.sha256(draft.encode("utf-8")):
        raise ValueError("the broker kept something else")
    guard["expected_revision"] = put.outcome.revision
    checkpoint = checkpoint_pb2.Checkpoint(
        id="drafted", current_state=text("drafted"), next_action=text("review the draft"),
        completed_boundary=text("the draft"), pending_action=client.not_applicable())
    checkpoint.source_snapshot.value.entities.extend(
        checkpoint_pb2.SourceEntity(**source(path)) for path in files)
    checkpoint.completed_units.value.items.add(unit="draft", evidence="artifact:draft v1")
    checkpoint.not_done.value.items.add(
        unit="review", kind=checkpoint_pb2.NOT_DONE_KIND_NOT_STARTED)
    checkpoint.artifact_descriptors.value.items.append(put.descriptor)
    # Present and empty: known to be none.
    checkpoint.open_unknown.value.SetInParent()
    checkpoint.blockers.value.SetInParent()
    checkpoint.version_set.value.items.add(component="tool", version="offer.py 1")
    fixed = baton.call(baton.tasks.PutCheckpoint, pb.PutCheckpointRequest(
        request_id=request_id(), task_id=task_id, guard=guard, checkpoint=checkpoint))
    guard["expected_revision"] = fixed.outcome.revision
    # The broker fills two fields; with them this is the document that its digest covers.
    checkpoint.task_id, checkpoint.contract_version = task_id, "0.2"
    if canonical.digest(checkpoint) != fixed.checkpoint.digest:
        raise ValueError("the checkpoint's digest is not that of the checkpoint")
    return guard, checkpoint, fixed.checkpoint


def offer(baton, files, guard, checkpoint, reference, to):
    """Offers the task: the checkpoint's fields word by word, and who goes on, why and how far."""
    from baton.v1 import handoff_pb2, handoff_service_pb2 as pb
    packet = handoff_pb2.HandoffPacket(
        task_id=checkpoint.task_id, next_owner={"id": to}, stop_condition=texts(*STOP),
        handoff_reason=text("the draft stands; a reviewer is needed"),
        scope=scope(files, to, days=1), last_safe_checkpoint=reference,
        active_goal={"objective": OBJECTIVE, "completion_criteria": CRITERIA})
    for name in ("current_state", "source_snapshot", "completed_units", "not_done", "open_unknown",
                 "blockers", "artifact_descriptors", "next_action", "completed_boundary",
                 "pending_action", "version_set"):
        getattr(packet, name).CopyFrom(getattr(checkpoint, name))
    packet.canonical_pointers.value.SetInParent()
    packet.external_side_effects.value.SetInParent()
    packet.resume_invariants.value.items.add(
        invariant=handoff_pb2.RESUME_INVARIANT_POSITION, holds=True, evidence="checkpoint:drafted")
    options = {"blind": handoff_pb2.BLIND_MODE_BLIND}
    return baton.call(baton.handoffs.OfferHandoff, pb.OfferHandoffRequest(
        request_id=request_id(), guard=guard, packet=packet, options=options))


def follow(baton, task_id, handoff_id):
    """Reads the task's events from the first, checks the chain, until the handoff has ended."""
    from baton.v1 import task_service_pb2 as pb
    chain = canonical.Chain()
    request = pb.WatchTaskRequest(task_id=task_id)
    for response in baton.watch(baton.tasks.WatchTask, request):
        event = response.event
        chain.take(event)
        detail = event.WhichOneof("detail")
        if detail == "handoff_received" and event.handoff_received.handoff_id == handoff_id:
            return chain, "RECEIVED by %s" % event.handoff_received.receiver, True
        if detail == "handoff_ended" and event.handoff_ended.handoff_id == handoff_id:
            return chain, "ended without a receipt", False
    raise ValueError("the events ended early")


def main():
    parser = argparse.ArgumentParser(description="Offer a task about files.")
    parser.add_argument("--address", default="http://127.0.0.1:7717")
    parser.add_argument("--principal", default="agent:writer")
    parser.add_argument("--token")
    parser.add_argument("--to", default="agent:reviewer")
    parser.add_argument("--verifier", default="verifier:readback")
    parser.add_argument("--generated", help="where generate.py has put the client")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    given = parser.parse_args()
    client.find_generated(given.generated)
    from baton.v1 import handoff_service_pb2 as pb
    baton = client.Connection(given.address, given.principal, given.token)
    created = create(baton, given.files, given.verifier)
    guard, checkpoint, reference = work(baton, created, given.files)
    offered = offer(baton, given.files, guard, checkpoint, reference, given.to)
    task_id, handoff_id = checkpoint.task_id, offered.outcome.handoff_id
    print("offered %s of task %s" % (handoff_id, task_id), flush=True)
    chain, end, received = follow(baton, task_id, handoff_id)
    print("%s; %d events, chain verified" % (end, chain.sequence), flush=True)
    packet = baton.call(baton.handoffs.GetHandoff,
                        pb.GetHandoffRequest(handoff_id=handoff_id)).packet
    if canonical.digest(packet) != offered.packet_digest:
        raise ValueError("the packet's digest is not that of the packet")
    print("packet digest recomputed: %s" % offered.packet_digest, flush=True)
    return 0 if received else 1


if __name__ == "__main__":
    raise SystemExit(main())

#!/usr/bin/env python3
"""A receiver: registers, waits for an offer, verifies it itself, takes control and goes on.

Usage: agent.py --address http://127.0.0.1:7717 [--principal agent:reviewer] [--token TOKEN]
                [--generated DIR] [--keep-going]

What an adapter's author would copy is `verify`: everything that the receipt says was computed
here, from what was fetched, and nothing was copied from the packet that the packet could withhold.
"""

import argparse
import pathlib
import threading
import urllib.parse

import canonical
import client
from client import Refused, request_id


def fetched(location):
    """The bytes at a location. Your agent reads from its own stores here."""
    url = urllib.parse.urlparse(location)
    if url.scheme != "file":
        raise ValueError("%s: this example reads file:// locations" % location)
    return pathlib.Path(urllib.parse.unquote(url.path)).read_bytes()


class Renewal:
    """Renews a claim while the receiver fetches and hashes, so that long work keeps its lease."""

    def __init__(self, baton, claim, instance):
        self.baton, self.claim, self.instance = baton, claim, instance
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        from baton.v1 import handoff_service_pb2 as pb
        outcome = self.claim.outcome
        lease = outcome.lease_expires_at.ToMicroseconds() - outcome.decided_at.ToMicroseconds()
        while not self.done.wait(lease / 3e6):
            try:
                self.baton.call(self.baton.handoffs.RenewClaim, pb.RenewClaimRequest(
                    request_id=request_id(), handoff_id=outcome.handoff_id,
                    instance_id=self.instance))
            except Refused:
                return  # The acknowledgement will say why.

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def verify(baton, packet):
    """The receipt: the five elements, each from what this process read itself."""
    from baton.v1 import receipt_pb2, task_service_pb2
    receipt = receipt_pb2.HandoffReceipt(task_id=packet.task_id, observed_at=client.now())
    # The contract: the digest is over the bytes that the packet carries; that they are the terms
    # that this program reads is checked too.
    if canonical.canonical_bytes(packet.contract) != packet.contract_canonical:
        raise ValueError("contract_canonical is not the canonical form of contract")
    receipt.contract.version = packet.contract.contract_version.value
    receipt.contract.digest = canonical.sha256(packet.contract_canonical)
    # The sources: fetched and hashed. A source without a digest algorithm has only a version.
    receipt.source_snapshot.SetInParent()
    for entity in packet.source_snapshot.value.entities:
        echo = receipt.source_snapshot.entities.add(
            entity_id=entity.entity_id, version=entity.version)
        if entity.digest_algorithm:
            echo.digest = canonical.sha256(fetched(entity.location))
    # The artifacts: from the broker where it keeps them, else from their location.
    receipt.artifacts.SetInParent()
    for artifact in packet.artifact_descriptors.value.items:
        kept = baton.call(baton.tasks.GetArtifact, task_service_pb2.GetArtifactRequest(
            task_id=packet.task_id, artifact_id=artifact.id))
        digest = (canonical.parts_digest(kept.parts) if kept.parts
                  else canonical.sha256(fetched(artifact.location)))
        receipt.artifacts.items.add(id=artifact.id, version=artifact.version, digest=digest)
    # The scope: what this agent takes on. Look at it before you agree to it.
    receipt.scope.CopyFrom(packet.scope)
    return receipt


def receive(baton, handoff_id, instance):
    """Claims an offer and answers it. The packet, and what the receipt left behind."""
    from baton.v1 import handoff_service_pb2 as pb
    claim = baton.call(baton.handoffs.ClaimHandoff, pb.ClaimHandoffRequest(
        request_id=request_id(), handoff_id=handoff_id, instance_id=instance))
    try:
        with Renewal(baton, claim, instance):
            receipt = verify(baton, claim.packet)
    except (OSError, ValueError) as problem:
        # What cannot be verified is refused with the reason; the sender stays owner.
        baton.call(baton.handoffs.RejectHandoff, pb.RejectHandoffRequest(
            request_id=request_id(), handoff_id=handoff_id, packet_digest=claim.packet_digest,
            reason="cannot verify: %s" % problem))
        raise
    done = baton.call(baton.handoffs.AcknowledgeHandoff, pb.AcknowledgeHandoffRequest(
        request_id=request_id(), handoff_id=handoff_id, packet_digest=claim.packet_digest,
        instance_id=instance, receipt=receipt))
    return claim, done


def check_open_packet(baton, claim):
    """After RECEIVED nothing is withheld: the whole packet must have the digest that was named."""
    from baton.v1 import handoff_service_pb2 as pb
    whole = baton.call(baton.handoffs.GetHandoff, pb.GetHandoffRequest(
        handoff_id=claim.outcome.handoff_id)).packet
    if canonical.digest(whole) != claim.packet_digest:
        raise ValueError("the packet is not the one that was claimed")


def go_on(baton, task_id, instance):
    """Continues at NEXT_ACTION with the resume set alone, and leaves a resume point of its own."""
    from baton.v1 import axes_pb2, task_pb2, task_service_pb2 as pb
    resume = baton.call(baton.tasks.GetResumeSet, pb.GetResumeSetRequest(task_id=task_id))
    task, checkpoint = resume.task, resume.checkpoint
    if canonical.digest(checkpoint) != task.checkpoint.digest:
        raise ValueError("the checkpoint is not what its digest says")
    if canonical.digest(resume.contract_document) != task.contract_digest:
        raise ValueError("the contract is not what its digest says")
    print("next action: %s" % checkpoint.next_action.value, flush=True)
    guard = {"epoch": task.epoch, "expected_revision": task.revision, "instance_id": instance}
    units = ", ".join(unit.unit for unit in checkpoint.not_done.value.items)
    put = baton.call(baton.tasks.PutArtifact, pb.PutArtifactRequest(
        request_id=request_id(), task_id=task_id, guard=guard,
        descriptor={"id": "review", "type": "document", "media_type": "text/plain",
                    "version": "v1", "role": "review", "digest_algorithm": "sha-256",
                    "location": "baton://tasks/%s/artifacts/review" % task_id,
                    "digested": "the text as UTF-8"},
        parts=[{"media_type": "text/plain", "text": "done: %s\n" % units}]))
    guard["expected_revision"] = put.outcome.revision
    for unit in checkpoint.not_done.value.items:
        checkpoint.completed_units.value.items.add(unit=unit.unit, evidence="artifact:review v1")
    checkpoint.completed_units.value.SetInParent()
    del checkpoint.not_done.value.items[:]
    checkpoint.not_done.value.SetInParent()
    checkpoint.artifact_descriptors.value.items.append(put.descriptor)
    checkpoint.id = "reviewed"
    checkpoint.current_state.CopyFrom(client.text("reviewed, waiting for acceptance"))
    checkpoint.next_action.CopyFrom(client.text("verify the review"))
    fixed = baton.call(baton.tasks.PutCheckpoint, pb.PutCheckpointRequest(
        request_id=request_id(), task_id=task_id, guard=guard, checkpoint=checkpoint))
    guard["expected_revision"] = fixed.outcome.revision
    report = task_pb2.StatusReport(runtime=axes_pb2.RUNTIME_STATUS_RUNTIME_COMPLETED)
    baton.call(baton.tasks.ReportStatus, pb.ReportStatusRequest(
        request_id=request_id(), task_id=task_id, guard=guard, report=report))


def register(baton, principal):
    """Registers, so that others can offer tasks to this agent. Once is enough."""
    from baton.v1 import agent_service_pb2 as pb
    card = {"name": principal, "description": "a reviewer in Python", "version": "1"}
    try:
        baton.call(baton.agents.RegisterAgent, pb.RegisterAgentRequest(
            request_id=request_id(), card=card))
    except Refused as refused:
        if refused.reason != "AGENT_EXISTS":
            raise


def main():
    parser = argparse.ArgumentParser(description="Receive handoffs.")
    parser.add_argument("--address", default="http://127.0.0.1:7717")
    parser.add_argument("--principal", default="agent:reviewer")
    parser.add_argument("--token")
    parser.add_argument("--generated", help="where generate.py has put the client")
    parser.add_argument("--keep-going", action="store_true", help="do not end after one task")
    given = parser.parse_args()
    client.find_generated(given.generated)
    from baton.v1 import handoff_service_pb2 as pb
    baton = client.Connection(given.address, given.principal, given.token)
    # A new process is a new instance; what an older one held is fenced.
    instance = "python-%s" % request_id()
    register(baton, given.principal)
    print("registered", flush=True)
    for offer in baton.watch(baton.handoffs.WatchHandoffs, pb.WatchHandoffsRequest()):
        handoff_id = offer.handoff.handoff_id
        try:
            claim, done = receive(baton, handoff_id, instance)
            print("received %s under epoch %d" % (handoff_id, done.outcome.epoch), flush=True)
            check_open_packet(baton, claim)
            go_on(baton, done.outcome.task_id, instance)
        except (Refused, OSError, ValueError) as problem:
            print("not received %s: %s" % (handoff_id, problem), flush=True)
            if not given.keep_going:
                return 1
        if not given.keep_going:
            return 0
    return 1


if __name__ == "__main__":
    raise SystemExit(main())

//! Baton: a gRPC handoff broker for agents, made to fit A2A 1.0.
//!
//! # Purpose
//!
//! A system of agents loses work where one agent stops and another goes on. Baton is the broker at
//! that seam. It keeps each task's critical state as typed, durable fields. It moves control of a
//! task by a packet, and counts it as received only when the receiver has named what it verified
//! itself. Whoever held the task before is fenced, however late it writes.
//!
//! # Map, in reading order
//!
//! | Room | What lives there |
//! |---|---|
//! | [`proto`] | the generated code of `proto/`; no logic |
//! | [`core`] | the pure core: `decide` judges a command, `apply` folds an event |
//! | [`wire`] | messages to the core's values and back, canonical form, withholding |
//! | [`store`] | bytes under ordered keys, one commit entry; sled, or memory |
//! | [`broker`] | the shell: one committer, reads that never run ahead of the disk, hints |
//! | [`service`] | the calls: who may see what, the order of checks, status codes |
//! | [`server`] | assembly: one port, all services, one end |
//! | [`client`] | calls that are repeated safely, and the loop of an agent |
//! | [`cli`] | the command `baton` |
//! | [`demo`] | a handoff shown between real processes, on real files |
//! | [`doctor`] | the store of a stopped broker, checked from end to end |
//! | [`bench`] | durable handoffs against bare calls and bare syncs |
//! | [`config`], [`principals`], [`telemetry`] | leaves: keys and defaults, who may call, the log |
//!
//! A room uses those above it in this order: `core` knows no other room but `proto`, `store` knows
//! nothing of tasks, `service` does not know the store. `tests/tidy` holds the arrows.
//!
//! # One change, from call to answer
//!
//! `service` asks who calls and what it may see, `wire` parses the request or tells every
//! violation, what needs no state is digested there; the proposal goes into a bounded queue. The
//! committer takes what waits, looks for a stored answer, lets `core` decide on an overlay, and
//! writes state, events, indexes and documents of all of them as one batch. When it is on disk,
//! everybody is answered and watchers are told to look.
//!
//! # Words
//!
//! | Word | Meaning |
//! |---|---|
//! | task | one piece of work; its id never changes |
//! | principal | the authenticated caller, always within a namespace |
//! | originator | the principal that created the task |
//! | owner | the one principal that holds control of a task now |
//! | instance | one process of a principal |
//! | epoch | rises by one with each change of owner or instance; fences older writers |
//! | revision | rises by one with each change of a task's state; the subject of compare-and-swap |
//! | contract | the terms of the work: 44 fields |
//! | checkpoint | the frozen resume point: done, not done, unknown, blocked, artifacts, next step |
//! | source snapshot | the authoritative inputs as (entity, version, digest) |
//! | scope | the authority that travels; it never grows |
//! | packet | a checkpoint with from, to, reason, scope and stop condition, offered |
//! | claim | a lease on an offer: the right to present a receipt, and nothing else |
//! | receipt | what the receiver verified, compared element by element |
//! | readback | re-reading a result, by a verifier that did not execute |
//! | acceptance | the decision that the criteria hold; never the executor's own |
//! | event | one entry of a task's hash-chained record |
//!
//! # Invariants
//!
//! What holds everywhere:
//!
//! 1. Control moves only with a matched echo, and only `core::receipt::compare` makes one.
//! 2. A task has at most one owner and at most one open handoff.
//! 3. A write with an old epoch, an old revision or another instance changes nothing.
//! 4. State, events and indexes are one batch; an answer comes after it is on disk (a lease comes
//!    before: losing one makes an offer claimable again, nothing else).
//! 5. A read never shows what a crash could take back.
//! 6. The axes (runtime, acceptance, handoff, approval) are never merged into one status.
//! 7. Absent, empty, not applicable, unknown and not available stay different things.
//! 8. Folding a task's events gives its state.
//!
//! What is not there, on purpose:
//!
//! - no clock, no randomness, no I/O and no `async` in `core`;
//! - no second writer: nothing but the committer calls `Store::commit`, timers included;
//! - no key of the store known outside of `store::key`, no status code outside `service::status`;
//! - no decision that reads a message, a comment or a history;
//! - no retry of an uncertain effect, no repair of damaged data, no default for a stored field;
//! - no lock held across an `.await`, no queue without a bound;
//! - no threshold of an organisation: no amount, no risk score, no retention period.
//!
//! What is promised to users, and what is not built yet, is in `README.md`; calls and reasons are
//! in `docs/rpc.md`, receipts in `docs/receipt.md`, the store in `docs/store.md`.

pub mod bench;
pub mod broker;
pub mod cli;
pub mod client;
pub mod config;
pub(crate) mod console;
pub mod core;
pub mod demo;
pub mod doctor;
pub mod principals;
pub mod proto;
pub mod server;
pub mod service;
pub mod store;
pub mod telemetry;
pub mod wire;

//! KRaft: who leads the metadata log (KIP-595, KIP-853).
//!
//! [`state`] is the pure machine: it is told what happened and answers with what to do. [`voters`] says who may vote,
//! [`state_file`] keeps across restarts what must not be forgotten. The shell that does what the machine says is the
//! controller's driver.
//!
//! One voter is served: this node. A data directory whose voters are others, or more, is refused.

pub mod state;
pub mod state_file;
pub mod voters;

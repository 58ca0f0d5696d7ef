//! The controller: decides what becomes of the cluster's metadata.
//!
//! Each request is decided by a pure function of the image, the request, the time and randomness handed in; it gives
//! records to append and the response. `driver` is the shell around them. Others hold a [`ControllerHandle`].

mod handle;

pub use handle::{ControllerError, ControllerHandle, Publisher};

//! Who clients say they are: for now, the keys that SCRAM makes of passwords.
//!
//! Pure: no sockets, no files. The command line tools call it.

pub mod scram;

//! The share coordinator's records, as they stand in `__share_group_state`. They are known so that a log with them can be
//! read; nothing acts on them.

pub mod records;

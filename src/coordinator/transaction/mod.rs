//! The transaction coordinator's records, as they stand in `__transaction_state`.

pub mod records;

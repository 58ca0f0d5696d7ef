//! The broker as a whole: puts the layers together, and answers requests.

mod advertised;
mod authorized_operations;
mod broker;
mod cordoned;
mod dispatch;
mod fetch_session;
mod handlers;
mod loggers;
pub mod node;
mod request;
mod topics;

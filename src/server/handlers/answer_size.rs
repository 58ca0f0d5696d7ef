//! The size of an answer that grows with what a request asks for, and with what is there: a request of a few KiB that names
//! one large group a thousand times would be answered with gigabytes.

use tokio::task::yield_now;

use crate::server::request::RequestError;

/// More than any honest request is answered with, in bytes. Beyond it the connection is closed.
pub const MAX_ANSWER: usize = 256 << 20;
/// What is said in the log then.
pub const TOO_LARGE: RequestError = RequestError::Refused("the answer would be larger than 256 MiB");
/// After so much, in bytes, the other connections of the thread get their turn.
const YIELD_EVERY: usize = 256 << 10;

/// See the module.
#[derive(Default)]
pub struct AnswerSize {
    bytes: usize,
    since_yield: usize,
}

impl AnswerSize {
    /// The answer has grown by so many bytes, or about.
    pub async fn grow(&mut self, bytes: usize) -> Result<(), RequestError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_ANSWER {
            return Err(TOO_LARGE);
        }
        self.since_yield = self.since_yield.saturating_add(bytes);
        if self.since_yield > YIELD_EVERY {
            self.since_yield = 0;
            yield_now().await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_may_be_large_but_not_without_end() {
        let mut size = AnswerSize::default();
        for _ in 0..256 {
            size.grow(1 << 20).await.unwrap();
        }
        assert!(matches!(size.grow(1).await, Err(RequestError::Refused(_))));
        assert!(AnswerSize::default().grow(usize::MAX).await.is_err());
    }
}

//! What went wrong, as the Java exception that Kafka's clients would have thrown: its class and its message are what
//! the tools print, and what scripts look for.

use std::fmt;

use crate::protocol::{ErrorCode, versions::ApiKey};

const ERRORS: &str = "org.apache.kafka.common.errors.";

/// An exception of Kafka's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The full name of the Java class.
    pub class: String,
    pub message: Option<String>,
    /// If it stands for an error code.
    pub code: Option<ErrorCode>,
    pub cause: Option<Box<Error>>,
    /// Whether the same may succeed in a moment.
    retriable: bool,
}

/// The outcome of what a client does.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An exception of the Java library or of Kafka, by its full name.
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Error {
        Error { class: class.into(), message: Some(message.into()), code: None, cause: None, retriable: false }
    }

    pub fn illegal_argument(message: impl Into<String>) -> Error {
        Error::new("java.lang.IllegalArgumentException", message)
    }

    pub fn config(message: impl Into<String>) -> Error {
        Error::new("org.apache.kafka.common.config.ConfigException", message)
    }

    pub fn timeout(message: impl Into<String>) -> Error {
        let code = ErrorCode::RequestTimedOut;
        Error { code: Some(code), ..Error::new(exception_class(code), message) }
    }

    /// The connection ended, or there is none.
    pub fn disconnected(message: impl Into<String>) -> Error {
        Error { retriable: true, ..Error::new(format!("{ERRORS}DisconnectException"), message) }
    }

    pub fn unsupported_version(message: impl Into<String>) -> Error {
        let code = ErrorCode::UnsupportedVersion;
        Error { code: Some(code), ..Error::new(exception_class(code), message) }
    }

    /// The node does not know the API, or no version of it that this client speaks.
    pub fn unsupported_api(api_key: ApiKey) -> Error {
        Error::unsupported_version(format!("The node does not support {}", constant_name(api_key.name())))
    }

    /// What a response says by a code, and a message if it has one.
    pub fn of(code: i16, message: Option<impl Into<String>>) -> Error {
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        Error {
            class: exception_class(code),
            message: Some(message.map_or_else(|| code.message().to_owned(), Into::into)),
            code: Some(code),
            cause: None,
            retriable: code.retriable(),
        }
    }

    /// `Ok` for code 0.
    pub fn check(code: i16, message: Option<impl Into<String>>) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(Error::of(code, message)) }
    }

    /// The same with another message.
    pub fn saying(self, message: impl Into<String>) -> Error {
        Error { message: Some(message.into()), ..self }
    }

    /// Without a message: its class says it all.
    pub fn bare(self) -> Error {
        Error { message: None, ..self }
    }

    pub fn caused_by(self, cause: Error) -> Error {
        Error { cause: Some(Box::new(cause)), ..self }
    }

    /// As `Future.get` throws it.
    pub fn in_execution(self) -> Error {
        Error::new("java.util.concurrent.ExecutionException", self.to_string()).caused_by(self)
    }

    /// The same, not to be tried again.
    pub fn for_good(self) -> Error {
        Error { retriable: false, ..self }
    }

    /// The same, to be tried again where it says that something is not there.
    pub fn for_another_try(self) -> Error {
        let retriable = self.retriable || self.code.is_some_and(ErrorCode::retriable);
        Error { retriable, ..self }
    }

    pub fn is(&self, code: ErrorCode) -> bool {
        self.code == Some(code)
    }

    /// The constant's name of the code; that of an unexpected error where there is none.
    pub fn code_name(&self) -> &'static str {
        self.code.unwrap_or(ErrorCode::UnknownServerError).name()
    }

    pub fn is_retriable(&self) -> bool {
        self.retriable
    }

    /// `getMessage()`, where `null` is printed as that.
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("null")
    }

    /// The heads of a stack trace: the exception and its causes. There are no frames to show.
    pub fn trace(&self) -> String {
        let mut trace = self.to_string();
        let mut next = self.cause.as_deref();
        while let Some(cause) = next {
            trace.push_str(&format!("\nCaused by: {cause}"));
            next = cause.cause.as_deref();
        }
        trace
    }
}

/// `toString()` of the exception.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Some(message) => write!(f, "{}: {message}", self.class),
            None => f.write_str(&self.class),
        }
    }
}

impl std::error::Error for Error {}

/// The full name of the exception that Kafka's clients throw for a code: mostly the code's own name, in another case.
pub fn exception_class(code: ErrorCode) -> String {
    let name = match code {
        ErrorCode::UnknownServerError => "UnknownServerException",
        ErrorCode::CorruptMessage => "CorruptRecordException",
        ErrorCode::RequestTimedOut => "TimeoutException",
        ErrorCode::MessageTooLarge => "RecordTooLargeException",
        ErrorCode::StaleControllerEpoch => "ControllerMovedException",
        ErrorCode::OffsetMetadataTooLarge => "OffsetMetadataTooLarge",
        ErrorCode::RecordListTooLarge => "RecordBatchTooLargeException",
        ErrorCode::TopicAuthorizationFailed => "TopicAuthorizationException",
        ErrorCode::GroupAuthorizationFailed => "GroupAuthorizationException",
        ErrorCode::ClusterAuthorizationFailed => "ClusterAuthorizationException",
        ErrorCode::TopicAlreadyExists => "TopicExistsException",
        ErrorCode::InvalidConfig => "InvalidConfigurationException",
        ErrorCode::OutOfOrderSequenceNumber => "OutOfOrderSequenceException",
        ErrorCode::DuplicateSequenceNumber => "DuplicateSequenceException",
        ErrorCode::InvalidProducerIdMapping => "InvalidPidMappingException",
        ErrorCode::InvalidTransactionTimeout => "InvalidTxnTimeoutException",
        ErrorCode::TransactionalIdAuthorizationFailed => "TransactionalIdAuthorizationException",
        ErrorCode::KafkaStorageError => "KafkaStorageException",
        ErrorCode::SaslAuthenticationFailed => "SaslAuthenticationException",
        ErrorCode::DelegationTokenAuthDisabled => "DelegationTokenDisabledException",
        ErrorCode::DelegationTokenRequestNotAllowed => "UnsupportedByAuthenticationException",
        ErrorCode::DelegationTokenAuthorizationFailed => "DelegationTokenAuthorizationException",
        ErrorCode::NonEmptyGroup => "GroupNotEmptyException",
        ErrorCode::InvalidRecord => return "org.apache.kafka.common.InvalidRecordException".to_owned(),
        ErrorCode::PrincipalDeserializationFailure => "PrincipalDeserializationException",
        ErrorCode::FetchSessionTopicIdError => "FetchSessionTopicIdException",
        ErrorCode::InvalidRegularExpression => "InvalidRegularExpression",
        code => {
            let mut class = ERRORS.to_owned();
            for word in code.name().split('_') {
                class.push_str(&word[..1]);
                class.push_str(&word[1..].to_lowercase());
            }
            if !class.ends_with("Exception") {
                class.push_str("Exception");
            }
            return class;
        }
    };
    format!("{ERRORS}{name}")
}

/// `DescribeTopicPartitions` as Java's constant for it: `DESCRIBE_TOPIC_PARTITIONS`.
fn constant_name(name: &str) -> String {
    let mut constant = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !constant.is_empty() {
            constant.push('_');
        }
        constant.extend(letter.to_uppercase());
    }
    constant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_kafkas() {
        let class = |code| exception_class(code).trim_start_matches(ERRORS).to_owned();
        assert_eq!(class(ErrorCode::UnknownTopicOrPartition), "UnknownTopicOrPartitionException");
        assert_eq!(class(ErrorCode::InvalidTopicException), "InvalidTopicException");
        assert_eq!(class(ErrorCode::TopicAlreadyExists), "TopicExistsException");
        assert_eq!(class(ErrorCode::InvalidReplicationFactor), "InvalidReplicationFactorException");
        assert_eq!(class(ErrorCode::InvalidRecord), "org.apache.kafka.common.InvalidRecordException");
    }

    #[test]
    fn traces_name_the_causes() {
        let error = Error::of(36, Some("Topic 'x' already exists.")).in_execution();
        let exists = "org.apache.kafka.common.errors.TopicExistsException: Topic 'x' already exists.";
        assert_eq!(error.message(), exists);
        assert_eq!(error.trace(), format!("java.util.concurrent.ExecutionException: {exists}\nCaused by: {exists}"));
    }
}

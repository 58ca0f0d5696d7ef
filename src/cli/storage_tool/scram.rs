//! `--add-scram`: a user's credential among the first records of a cluster.
//!
//! ```text
//! SCRAM-SHA-256=[name=alice,password=alice-secret]
//! SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]
//! ```

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::config::java;
use crate::metadata::records::UserScramCredentialRecord;
use crate::security::scram::{self, Mechanism};

/// The record that an argument stands for, or what is wrong with it.
pub fn record(text: &str) -> Result<UserScramCredentialRecord, String> {
    let text = java::trim(text);
    let (mechanism, config) =
        text.split_once('=').ok_or_else(|| format!("Failed to find equals sign in SCRAM argument '{text}'"))?;
    let mechanism =
        Mechanism::named(mechanism).ok_or_else(|| format!("The add-scram mechanism {mechanism} is not supported."))?;
    let config = config.strip_prefix('[').ok_or("Expected configuration string to start with [")?;
    let config = config.strip_suffix(']').ok_or("Expected configuration string to end with ]")?;
    let mut parts = BTreeMap::new();
    for part in java::split(config, ',') {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("No equals sign found in SCRAM component: {part}"))?;
        let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        parts.insert(key, unquoted.unwrap_or(value));
    }
    let name = parts.remove("name").ok_or("You must supply 'name' to add-scram")?;
    let salt = match parts.remove("salt") {
        Some(salt) => Some(BASE64.decode(salt).map_err(|_| format!("Failed to decode given salt: {salt}"))?),
        None => None,
    };
    let iterations = match parts.remove("iterations") {
        Some(text) => java::parse_integer(text).ok_or_else(|| format!("Failed to parse iterations count: {text}"))?,
        None => scram::DEFAULT_ITERATIONS,
    };
    let (password, salted) = (parts.remove("password"), parts.remove("saltedpassword"));
    let salted = match (password, salted) {
        (None, None) => return Err("You must supply one of 'password' or 'saltedpassword' to add-scram".to_owned()),
        (None, Some(_)) if salt.is_none() => {
            return Err("You must supply 'salt' with 'saltedpassword' to add-scram".to_owned());
        }
        (None, Some(text)) => {
            Some(BASE64.decode(text).map_err(|_| format!("Failed to decode given saltedPassword: {text}"))?)
        }
        (Some(_), _) => None,
    };
    if !parts.is_empty() {
        let unknown: Vec<&str> = parts.into_keys().collect();
        return Err(format!("Unknown SCRAM configurations: {}", unknown.join(", ")));
    }
    if iterations < scram::MIN_ITERATIONS {
        return Err(bound(">=", scram::MIN_ITERATIONS, mechanism));
    }
    if iterations > scram::MAX_ITERATIONS {
        return Err(bound("<=", scram::MAX_ITERATIONS, mechanism));
    }
    let salt = salt.unwrap_or_else(scram::random_salt);
    let salted =
        salted.unwrap_or_else(|| mechanism.salted_password(password.unwrap_or_default().as_bytes(), &salt, iterations));
    Ok(UserScramCredentialRecord {
        name: name.to_owned(),
        mechanism: mechanism as i8,
        salt: salt.into(),
        stored_key: mechanism.stored_key(&salted).into(),
        server_key: mechanism.server_key(&salted).into(),
        iterations,
    })
}

fn bound(relation: &str, bound: i32, mechanism: Mechanism) -> String {
    format!("The 'iterations' value must be {relation} {bound} for add-scram using {}", mechanism.constant())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_derived_or_given() {
        let derived = record("SCRAM-SHA-256=[name=alice,salt=\"c2FsdA==\",password=secret]").unwrap();
        let salted = BASE64.encode(Mechanism::Sha256.salted_password(b"secret", b"salt", 4096));
        let given = record(&format!("SCRAM-SHA-256=[name=alice,salt=c2FsdA==,saltedpassword=\"{salted}\"]")).unwrap();
        assert_eq!(derived, given);
        assert_eq!((derived.name.as_str(), derived.mechanism, derived.iterations), ("alice", 1, 4096));
        assert_eq!((derived.stored_key.len(), derived.server_key.len()), (32, 32));
        assert_eq!(record("SCRAM-SHA-512=[name=b,password=c]").unwrap().stored_key.len(), 64);
    }

    #[test]
    fn mistakes_are_told() {
        for (text, message) in [
            ("x", "Failed to find equals sign in SCRAM argument 'x'"),
            ("SCRAM-SHA-1=[]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
            ("SCRAM-SHA-256=name=a", "Expected configuration string to start with ["),
            ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
            ("SCRAM-SHA-256=[name]", "No equals sign found in SCRAM component: name"),
            ("SCRAM-SHA-256=[password=a]", "You must supply 'name' to add-scram"),
            ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
            ("SCRAM-SHA-256=[name=a,saltedpassword=YQ==]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
            ("SCRAM-SHA-256=[name=a,password=b,x=y]", "Unknown SCRAM configurations: x"),
            (
                "SCRAM-SHA-256=[name=a,password=b,iterations=16385]",
                "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_256",
            ),
        ] {
            assert_eq!(record(text).unwrap_err(), message, "{text}");
        }
    }
}

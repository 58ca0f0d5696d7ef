//! The keys of SCRAM (RFC 5802): what is kept of a password, so that who has it can show that without saying it.
//!
//! ```text
//! salted password = PBKDF2 of the password, with HMAC of the mechanism's hash
//! client key = HMAC(salted password, "Client Key")     stored key = hash(client key)
//! server key = HMAC(salted password, "Server Key")
//! ```
//!
//! As Kafka does, passwords are taken as their UTF-8, without SASLprep.

use hmac::{Hmac, KeyInit, Mac};
use pbkdf2::pbkdf2_hmac_array;
use sha2::{Digest as _, Sha256, Sha512};

/// Kafka takes no fewer, of either mechanism.
pub const MIN_ITERATIONS: i32 = 4096;
/// Kafka takes no more.
pub const MAX_ITERATIONS: i32 = 16384;
/// Where nobody says how many.
pub const DEFAULT_ITERATIONS: i32 = 4096;

/// One of the hashes that Kafka knows SCRAM with; the numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Mechanism {
    Sha256 = 1,
    Sha512 = 2,
}

impl Mechanism {
    pub const ALL: [Mechanism; 2] = [Mechanism::Sha256, Mechanism::Sha512];

    /// Its name in SASL.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha256 => "SCRAM-SHA-256",
            Mechanism::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Kafka's constant for it.
    pub fn constant(self) -> &'static str {
        match self {
            Mechanism::Sha256 => "SCRAM_SHA_256",
            Mechanism::Sha512 => "SCRAM_SHA_512",
        }
    }

    pub fn named(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    pub fn of_id(id: i8) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| *mechanism as i8 == id)
    }

    /// The password with salt, hashed so many times: at least once. As long as the mechanism's hash.
    pub fn salted_password(self, password: &[u8], salt: &[u8], iterations: i32) -> Vec<u8> {
        let rounds = iterations.max(1) as u32;
        match self {
            Mechanism::Sha256 => pbkdf2_hmac_array::<Sha256, 32>(password, salt, rounds).to_vec(),
            Mechanism::Sha512 => pbkdf2_hmac_array::<Sha512, 64>(password, salt, rounds).to_vec(),
        }
    }

    /// What a server checks a client by.
    pub fn stored_key(self, salted_password: &[u8]) -> Vec<u8> {
        let client_key = self.hmac(salted_password, &[b"Client Key"]);
        match self {
            Mechanism::Sha256 => Sha256::digest(client_key).to_vec(),
            Mechanism::Sha512 => Sha512::digest(client_key).to_vec(),
        }
    }

    /// What a server shows itself by.
    pub fn server_key(self, salted_password: &[u8]) -> Vec<u8> {
        self.hmac(salted_password, &[b"Server Key"])
    }

    fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Mechanism::Sha256 => mac::<Hmac<Sha256>>(key, parts),
            Mechanism::Sha512 => mac::<Hmac<Sha512>>(key, parts),
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// A new salt: as in Kafka, letters and digits of more than 128 bits by chance.
pub fn random_salt() -> Vec<u8> {
    (0..26).map(|_| b"0123456789abcdefghijklmnopqrstuvwxyz"[rand::random_range(0..36)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;

    #[test]
    fn salted_passwords_are_pbkdf2() {
        // RFC 7914, section 11: its first 32 bytes are those of one block.
        let one = Mechanism::Sha256.salted_password(b"passwd", b"salt", 1);
        assert_eq!(one[..8], [0x55, 0xac, 0x04, 0x6e, 0x56, 0xe3, 0x08, 0x9f]);
        let many = Mechanism::Sha256.salted_password(b"Password", b"NaCl", 80_000);
        assert_eq!(many[..8], [0x4d, 0xdc, 0xd8, 0xf6, 0x0b, 0x98, 0xbe, 0x21]);
    }

    #[test]
    fn the_exchange_of_rfc_7677_fits() {
        // Its section 3: user `user`, password `pencil`; the server's signature is HMAC(server key, auth message).
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = Mechanism::Sha256.salted_password(b"pencil", &salt, 4096);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let auth =
            format!("n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}");
        let signature = Mechanism::Sha256.hmac(&Mechanism::Sha256.server_key(&salted), &[auth.as_bytes()]);
        assert_eq!(BASE64.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        // A client's proof, undone, is its key, whose hash is the stored key.
        let stored = Mechanism::Sha256.stored_key(&salted);
        let mut client_key = BASE64.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        let client_signature = Mechanism::Sha256.hmac(&stored, &[auth.as_bytes()]);
        client_key.iter_mut().zip(&client_signature).for_each(|(byte, mask)| *byte ^= mask);
        assert_eq!(Sha256::digest(client_key).to_vec(), stored);
    }

    #[test]
    fn mechanisms_have_names_and_numbers() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::named(mechanism.name()), Some(mechanism));
            assert_eq!(Mechanism::of_id(mechanism as i8), Some(mechanism));
        }
        assert_eq!(Mechanism::Sha512.salted_password(b"p", b"s", 2).len(), 64);
        assert_eq!(Mechanism::named("SCRAM-SHA-1"), None);
        assert_ne!(random_salt(), random_salt());
    }
}

//! The cluster's secret: who knows it belongs to the cluster.
//!
//! Both ends prove that they know it without saying it: each sends 32 random bytes, and answers with an HMAC-SHA-256
//! (RFC 2104, FIPS 180-4) over both. From the same bytes come the keys of the connection, one for each direction, with
//! which every later message is sealed. So a recorded connection cannot be played again, and nobody between the ends can
//! change or add a message. Nothing is encrypted: neither is RDMA.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The fewest bytes of a secret: below that it could be guessed from a recorded proof.
pub const LEAST: usize = 32;

/// The most bytes of a secret's file.
const MOST: u64 = 4_096;

/// Bytes of a proof.
pub const PROOF: usize = 32;

/// Random bytes that an end contributes to a connection.
pub const NONCE: usize = 32;

/// Bytes of a message's seal: half a digest, which RFC 2104 allows (section 5).
pub const SEAL: usize = 16;

/// A cluster's secret.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { "Secret(..)" })
    }
}

/// Why a secret's file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read.
    #[error("the secret {path}: {why}", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// Others than its owner may read or write it.
    #[error("the secret {path} is open to others (mode {mode:04o}): chmod 600 {path}", path = path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is too short.
    #[error(
        "the secret {path} has {bytes} bytes and needs {LEAST}: (umask 077; head -c 32 /dev/urandom | base64 > {path})",
        path = path.display()
    )]
    Short {
        /// Which file.
        path: PathBuf,
        /// How many bytes it has, without white space at its end.
        bytes: usize,
    },
    /// It is too long to be a secret.
    #[error("the secret {path} has more than {MOST} bytes: is it the right file?", path = path.display())]
    Long {
        /// Which file.
        path: PathBuf,
    },
}

impl Secret {
    /// No secret: everybody who reaches the port belongs to the cluster.
    pub fn none() -> Secret {
        Secret(Vec::new())
    }

    /// Whether there is one.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// A secret by its bytes; for files see [`Secret::read`].
    pub fn of(bytes: &[u8]) -> Secret {
        Secret(bytes.to_vec())
    }

    /// Reads a file that only its owner may touch. White space at its end does not count.
    pub fn read(path: &Path) -> Result<Secret, SecretError> {
        let unreadable =
            |why: std::io::Error| SecretError::Unreadable { path: path.into(), why: why.to_string() };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        // Of the file that was opened: the name may mean another one by now.
        let about = file.metadata().map_err(unreadable)?;
        if about.is_dir() {
            return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
        }
        if let Some(mode) = open_to_others(&about) {
            return Err(SecretError::Open { path: path.into(), mode });
        }
        let mut bytes = Vec::new();
        file.take(MOST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MOST {
            return Err(SecretError::Long { path: path.into() });
        }
        bytes.truncate(bytes.trim_ascii_end().len());
        match bytes.len() < LEAST {
            true => Err(SecretError::Short { path: path.into(), bytes: bytes.len() }),
            false => Ok(Secret(bytes)),
        }
    }

    fn digest(&self, what: &str, shared: &Shared) -> Hmac<Sha256> {
        let mut mac = keyed(&self.0);
        mac.update(what.as_bytes());
        mac.update(&shared.version.to_be_bytes());
        mac.update(&shared.coordinator);
        mac.update(&shared.caller);
        mac
    }

    /// What the given end says to prove that it knows the secret.
    pub fn proof(&self, of: End, shared: &Shared) -> [u8; PROOF] {
        self.digest(of.proves(), shared).finalize().into_bytes().into()
    }

    /// Whether the other end's proof is right; takes as long for every wrong one.
    pub fn is_proved(&self, by: End, shared: &Shared, proof: &[u8]) -> bool {
        self.digest(by.proves(), shared).verify_slice(proof).is_ok()
    }

    /// The key with which the given end seals its messages.
    pub fn seal(&self, of: End, shared: &Shared) -> Seal {
        let key = self.digest(of.seals(), shared).finalize().into_bytes();
        Seal { mac: keyed(&key), next: 0 }
    }
}

#[cfg(unix)]
fn open_to_others(about: &std::fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let mode = about.mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &std::fs::Metadata) -> Option<u32> {
    None
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("an HMAC takes keys of any length")
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that listens.
    Coordinator,
    /// The one that connects.
    Caller,
}

impl End {
    fn proves(self) -> &'static str {
        match self {
            End::Coordinator => "weft control: the coordinator's proof",
            End::Caller => "weft control: the caller's proof",
        }
    }

    fn seals(self) -> &'static str {
        match self {
            End::Coordinator => "weft control: the coordinator's seal",
            End::Caller => "weft control: the caller's seal",
        }
    }
}

/// What both ends of a connection know of it, and nobody could choose alone.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The version that both speak.
    pub version: u16,
    /// The coordinator's random bytes.
    pub coordinator: [u8; NONCE],
    /// The caller's.
    pub caller: [u8; NONCE],
}

/// The digest of what both ends must have the same of: 32 hexadecimal digits, the first half of SHA-256.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Random bytes of the system's.
pub fn nonce() -> std::io::Result<[u8; NONCE]> {
    random()
}

/// A random number of the system's: it names a process, or a coordinator.
pub fn number() -> std::io::Result<u64> {
    random().map(u64::from_le_bytes)
}

fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| std::io::Error::other(format!("no random bytes: {why}")))?;
    Ok(bytes)
}

/// Seals the messages of one direction, or checks their seals. Each has its number in it: a message that is left out,
/// repeated or moved breaks the next seal.
#[derive(Clone, Debug)]
pub struct Seal {
    mac: Hmac<Sha256>,
    next: u64,
}

impl Seal {
    fn over(&mut self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(&self.next.to_be_bytes());
        mac.update(bytes);
        self.next += 1;
        mac
    }

    /// The next message's seal.
    pub fn make(&mut self, bytes: &[u8]) -> [u8; SEAL] {
        let whole = self.over(bytes).finalize().into_bytes();
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&whole[..SEAL]);
        seal
    }

    /// Whether this is the next message's seal.
    pub fn fits(&mut self, bytes: &[u8], seal: &[u8]) -> bool {
        seal.len() == SEAL && self.over(bytes).verify_truncated_left(seal).is_ok()
    }
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;

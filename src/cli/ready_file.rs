//! The file that tells other programs where the broker serves, for as long as it does.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::Endpoint;

/// The file of `--ready-file`. It is there, complete, from [`ReadyFile::write`] on until this is dropped.
pub(super) struct ReadyFile {
    path: PathBuf,
}

impl ReadyFile {
    /// Removes what an earlier run may have left.
    pub(super) fn prepare(path: &Path) -> io::Result<ReadyFile> {
        remove(path)?;
        Ok(ReadyFile { path: path.to_owned() })
    }

    /// Writes one line for each endpoint, in one step for those who look.
    pub(super) fn write(&self, endpoints: &[Endpoint]) -> io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = self.path.with_file_name(name);
        let text = endpoints.iter().fold(String::new(), |mut text, endpoint| {
            let _ = writeln!(text, "{}", address(endpoint));
            text
        });
        fs::write(&temporary, text)?;
        fs::rename(&temporary, &self.path).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// `host:port` under which a program on this machine reaches the endpoint.
pub(super) fn address(endpoint: &Endpoint) -> String {
    match endpoint.host.trim() {
        "" | "0.0.0.0" | "::" => format!("localhost:{}", endpoint.port),
        host if host.contains(':') => format!("[{host}]:{}", endpoint.port),
        host => format!("{host}:{}", endpoint.port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecurityProtocol;

    #[test]
    fn is_there_whole_while_the_broker_serves() {
        let endpoint = |host: &str, port| Endpoint {
            listener_name: "PLAINTEXT".to_owned(),
            security_protocol: SecurityProtocol::Plaintext,
            host: host.to_owned(),
            port,
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ready");
        fs::write(&path, "stale").unwrap();
        let file = ReadyFile::prepare(&path).unwrap();
        assert!(!path.exists());
        file.write(&[endpoint("", 1), endpoint("0.0.0.0", 2), endpoint("::1", 3), endpoint("b.example", 4)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "localhost:1\nlocalhost:2\n[::1]:3\nb.example:4\n");
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

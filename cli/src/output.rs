//! What goes to standard output. A reader that has seen enough (`weft ... | head`) is no error.

use crate::exit::{Exit, Failure};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};

/// Writes a finished text.
pub fn text(text: &str) -> Result<(), Failure> {
    put(&mut io::stdout().lock(), text.as_bytes())
}

/// Writes one text of many. Says whether anybody reads still.
pub fn one(text: &str) -> Result<bool, Failure> {
    put_one(&mut io::stdout().lock(), text.as_bytes())
}

/// What others have written, in a line for people: it neither moves a terminal's cursor nor begins lines of its own.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Writes bytes as they are.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    put(&mut io::stdout().lock(), bytes)
}

/// Writes one JSON value, indented, and a line end.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::unfinished(format!("the report does not fit into JSON: {e}")))?;
    text.push('\n');
    put(&mut io::stdout().lock(), text.as_bytes())
}

/// Writes a report, as JSON or for people. Its verdict stands where it cannot be told.
pub fn report(verdict: Exit, in_json: bool, value: &impl Serialize, words: &str) -> Result<(), Failure> {
    let told = if in_json { json(value) } else { text(words) };
    told.map_err(|failure| failure.after(verdict))
}

/// Standard output for many lines. Once the reader has gone, the rest goes nowhere.
#[derive(Default)]
pub struct Lines {
    kept: Vec<u8>,
    gone: bool,
}

impl Lines {
    fn pass_on(&mut self) -> io::Result<()> {
        let kept = std::mem::take(&mut self.kept);
        if self.gone {
            return Ok(());
        }
        let mut to = io::stdout().lock();
        match to.write_all(&kept).and_then(|()| to.flush()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.gone = true;
                Ok(())
            }
            other => other,
        }
    }
}

/// What comes last has no flush of its own.
impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.pass_on();
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const MOST: usize = 1 << 16;
        self.kept.extend_from_slice(bytes);
        if self.kept.len() >= MOST {
            self.pass_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()
    }
}

fn put(to: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    put_one(to, bytes).map(drop)
}

fn put_one(to: &mut impl Write, bytes: &[u8]) -> Result<bool, Failure> {
    match to.write_all(bytes).and_then(|()| to.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::unfinished(format!("cannot write to standard output: {e}"))),
        Ok(()) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refuses(ErrorKind);

    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        assert!(put(&mut Refuses(ErrorKind::BrokenPipe), b"x").is_ok());
        assert!(
            put_one(&mut Refuses(ErrorKind::BrokenPipe), b"x").is_ok_and(|is_read| !is_read),
            "and an end"
        );
    }

    #[test]
    fn a_full_disk_is_an_error() {
        assert!(put(&mut Refuses(ErrorKind::StorageFull), b"x").is_err());
    }
}

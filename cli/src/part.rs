//! Names of files that are not whole yet.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use weft_control::secret;

/// Bytes of a part's name beside those that it has of the file's.
pub const ADDED: usize = ".".len() + ".0123456789abcdef.part".len();

/// The most that it has of those, in bytes: it has room for what makes it another one.
const MOST: usize = 200;

/// The name that a file has until it is whole, with so many bytes of its own at the most. The number makes it one that no part has which an
/// earlier program left when it was killed: not even where that had this program's process number.
pub fn part_of(name: &str, number: u64, room: usize) -> String {
    let fits = |(at, c): &(usize, char)| at + c.len_utf8() <= room.min(MOST);
    let name: String = name.char_indices().take_while(fits).map(|(_, c)| c).collect();
    format!(".{name}.{number:016x}.part")
}

/// The same of a file of this machine, in the same folder: a name can be changed there in one step.
pub fn part_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    Ok(path.with_file_name(part_of(&name, secret::number()?, MOST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_file_of_any_name_has_a_name_of_its_own_that_is_not_too_long() {
        for name in ["a".repeat(255), "\u{fc}".repeat(127), "b".into()] {
            let [one, other] = [1, u64::MAX].map(|number| part_of(&name, number, 300));
            assert!(one != other && one != name && one.len().max(other.len()) <= 255, "{one} {other}");
        }
        assert_eq!(part_of("\u{fc}ber", 1, 3).len(), 3 + ADDED);
        assert_eq!(part_of("\u{fc}ber", 1, 1).len(), ADDED);
        let beside = part_beside(Path::new("/a/b")).expect("a name");
        assert_eq!(beside.parent(), Some(Path::new("/a")));
        assert!(part_beside(Path::new("/")).is_err());
    }
}

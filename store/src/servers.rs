//! For how many file servers a store's files were placed.
//!
//! Where the bytes of a file lie is arithmetic with that number. Servers of a cluster that has another one find zeros where bytes were.

use crate::directory::{Directory, SERVERS, StoreRefused, is_full, write_whole};
use std::io::{self, ErrorKind};

impl Directory {
    /// Holds the store to the number of file servers that its cluster has. A store that does not say, as one of an earlier version, takes
    /// this one, and so does one in which nothing lies.
    ///
    /// # Errors
    ///
    /// Its files were placed for another number; or what says that is damaged, or cannot be read or written.
    pub fn of_servers(&self, servers: u32) -> Result<(), StoreRefused> {
        let path = self.path().join(SERVERS);
        match self.servers()? {
            Some(found) if found == servers => Ok(()),
            Some(found) => match self.objects() {
                Ok(objects) if objects.is_empty() => self.say(servers).map_err(StoreRefused::at(&path)),
                _ => Err(StoreRefused::Servers { path, found, wanted: servers }),
            },
            None => match self.say(servers) {
                // A full disk is to be emptied; the next start finds room.
                Err(why) if !is_full(&why) => Err(StoreRefused::at(&path)(why)),
                _ => Ok(()),
            },
        }
    }

    /// For how many file servers the store's files were placed, if it says.
    ///
    /// # Errors
    ///
    /// What says that is damaged, or cannot be read.
    pub fn servers(&self) -> Result<Option<u32>, StoreRefused> {
        let path = self.path().join(SERVERS);
        let text = match self.read(SERVERS) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(StoreRefused::at(&path))?,
        };
        let number = std::str::from_utf8(&text).ok().and_then(|text| text.strip_suffix('\n'));
        let number = number.and_then(|number| number.parse().ok());
        number.map(Some).ok_or(StoreRefused::Head { path, line: 1 })
    }

    fn say(&self, servers: u32) -> io::Result<()> {
        write_whole(&self.folder, SERVERS, &format!("{servers}\n"))
    }
}

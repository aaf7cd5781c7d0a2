//! Scenario files as a stranger may write them.

/// Reads the bytes as a scenario file. Whatever they are, they are refused with one line, or understood; and what was
/// understood says the same when it is written down and read again.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match crate::parse(text) {
        Ok(read) => {
            let written = toml::to_string(&read).expect("a scenario can be written");
            let again = crate::parse(&written).unwrap_or_else(|why| panic!("{why}\n{written}"));
            assert_eq!(again, read, "{written}");
        }
        Err(why) => {
            let line = why.to_string();
            assert!(!line.is_empty() && !line.contains(['\n', '\r']), "not one line: {line:?}");
        }
    }
}

//! The words and signs of a source file.

/// A word or a sign of the language, and its line.
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// Words and signs; no comments, no text in quotes.
pub fn tokens(text: &str) -> Vec<Token> {
    let bytes: Vec<char> = text.chars().collect();
    let (mut at, mut line, mut found) = (0, 1, Vec::new());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while at < bytes.len() {
        let rest = |from: usize, what: &str| {
            bytes[from..].iter().copied().take(what.chars().count()).eq(what.chars())
        };
        let begin = at;
        match bytes[at] {
            '/' if rest(at, "//") => {
                at = (at..bytes.len()).find(|&n| bytes[n] == '\n').unwrap_or(bytes.len())
            }
            '/' if rest(at, "/*") => {
                at = (at..bytes.len()).find(|&n| rest(n, "*/")).map_or(bytes.len(), |n| n + 2)
            }
            '"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != '"' {
                    at += if bytes[at] == '\\' { 2 } else { 1 };
                }
                at += 1;
            }
            'r' if rest(at, "r\"") || rest(at, "r#\"") => {
                let hashes = usize::from(bytes[at + 1] == '#');
                let end = if hashes == 1 { "\"#" } else { "\"" };
                at += 2 + hashes;
                at = (at..bytes.len()).find(|&n| rest(n, end)).map_or(bytes.len(), |n| n + 1 + hashes);
            }
            // A character, or a lifetime.
            '\'' if bytes.get(at + 1) == Some(&'\\') => {
                at = (at + 3..bytes.len()).find(|&n| bytes[n] == '\'').map_or(bytes.len(), |n| n + 1);
            }
            '\'' if bytes.get(at + 2) == Some(&'\'') => at += 3,
            c if is_word(c) => {
                at = (at..bytes.len()).find(|&n| !is_word(bytes[n])).unwrap_or(bytes.len());
                found.push(Token { text: bytes[begin..at].iter().collect(), line });
            }
            ':' if rest(at, "::") => {
                at += 2;
                found.push(Token { text: "::".into(), line });
            }
            c => {
                at += 1;
                if !c.is_whitespace() {
                    found.push(Token { text: c.into(), line });
                }
            }
        }
        let end = at.min(bytes.len());
        line += bytes[begin..end].iter().filter(|c| **c == '\n').count();
    }
    found
}

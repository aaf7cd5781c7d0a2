//! Reading the command line, and what is told of one that cannot be read: one line, with the help that is about it.

use crate::args::{BenchSystemArgs, Cli};
use crate::help;
use clap::{Arg, Command, CommandFactory, FromArgMatches};

/// Reads the program's command line. `Err` is a complaint of one line; `Ok(Err)` is a text that was asked for, such as `--help`.
pub fn read() -> Result<Result<Cli, String>, String> {
    match parsed::<Cli>(std::env::args_os()) {
        Ok(cli) => Ok(Ok(cli)),
        Err(error) if !error.use_stderr() => Ok(Err(error.render().to_string())),
        Err(error) => {
            // A name need not be UTF-8.
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
            Err(one_line(&error, words))
        }
    }
}

/// Reads what follows `weft bench`, in the same way.
pub fn read_bench(words: &[String]) -> Result<Result<BenchSystemArgs, String>, String> {
    let line = std::iter::once("weft bench").chain(words.iter().map(String::as_str));
    match parsed::<BenchSystemArgs>(line) {
        Ok(args) => Ok(Ok(args)),
        Err(error) if !error.use_stderr() => Ok(Err(error.render().to_string())),
        Err(error) => Err(one_line(&error, ["weft", "bench"].map(String::from).into_iter())),
    }
}

fn parsed<T: CommandFactory + FromArgMatches>(
    line: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
) -> Result<T, clap::Error> {
    let mut command = with_negative(T::command());
    let matches = command.try_get_matches_from_mut(line)?;
    T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// A number below zero is a value that is refused with what it can be, and no option that nobody knows.
fn with_negative(command: Command) -> Command {
    let takes = |arg: Arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(takes).mut_subcommands(with_negative)
}

/// What to say where the command of a command is missing.
fn missing(line: impl Iterator<Item = String>) -> String {
    let (name, command) = command_of(line);
    let names: Vec<&str> = help::shown(&command).map(Command::get_name).collect();
    let names = names.join(", ");
    match name.as_str() {
        "weft bench" => {
            format!("say what to measure: {names}, or a system: {} (see `{name} --help`)", help::kinds())
        }
        _ => format!("say what to do: {names} (see `{name} --help`)"),
    }
}

/// clap's complaint without its usage paragraph, in one line.
fn one_line(error: &clap::Error, line: impl Iterator<Item = String>) -> String {
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return missing(line);
    }
    let text = error.render().to_string();
    let said = text.split("\nUsage:").next().unwrap_or_default();
    let said = said.split("\nFor more information").next().unwrap_or_default();
    // How to pass an option as a value is no help to who has mistyped one; what it is like is.
    let lines = said.lines().filter(|line| !line.trim_start().starts_with("tip: to pass "));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let said = reworded(words.join(" "));
    let (command, _) = command_of(line);
    format!("{} (see `{command} --help`)", said.strip_prefix("error: ").unwrap_or(&said))
}

/// What the library says of a number, in words for people.
fn reworded(said: String) -> String {
    const WORDS: [(&str, &str); 4] = [
        ("number too large to fit in target type", "it is too large"),
        ("number too small to fit in target type", "it is too small"),
        ("invalid digit found in string", "it is no whole number"),
        ("cannot parse integer from empty string", "it is no whole number"),
    ];
    WORDS.iter().fold(said, |said, (theirs, ours)| said.replace(theirs, ours))
}

/// The command that a command line is about, with its name: `weft run` of `weft run s.toml --seed x`, and `weft fs rm` of `weft fs --json
/// rm`.
fn command_of(line: impl Iterator<Item = String>) -> (String, Command) {
    let (mut command, mut name) = (Cli::command(), String::from("weft"));
    let mut words = line.skip(1);
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            if takes_next(&command, &word) {
                words.next();
            }
            continue;
        }
        let Some(found) = command.find_subcommand(&word).cloned() else { break };
        name = format!("{name} {word}");
        command = found;
    }
    (name, command)
}

/// Whether an option's value is the next word.
fn takes_next(command: &Command, option: &str) -> bool {
    let is_it = |arg: &&Arg| match option.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| option == format!("-{short}")),
    };
    command.get_arguments().find(is_it).is_some_and(|arg| arg.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn told(line: &[&str]) -> String {
        let error = parsed::<Cli>(line.iter().copied()).expect_err("refused");
        one_line(&error, line.iter().map(ToString::to_string))
    }

    #[test]
    fn who_gives_no_command_is_told_all_that_there_are() {
        let line = told(&["weft"]);
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(line.contains(&format!(" {}", command.get_name())), "{line}");
        }
        assert!(line.contains(" fs") && line.contains(" daemon"), "{line}");
    }

    #[test]
    fn who_gives_half_a_command_is_told_what_can_follow() {
        let lines: [(&[&str], &str); 3] = [
            (&["weft", "segment"], "say what to do: put, get, "),
            (&["weft", "fs"], "say what to do: ls, "),
            (&["weft", "bench"], "say what to measure: fabric, or a system: "),
        ];
        for (line, says) in lines {
            let text = told(line);
            let help = format!("(see `{} --help`)", line.join(" "));
            assert!(text.starts_with(says) && text.ends_with(&help), "{line:?}: {text}");
        }
    }

    #[test]
    fn a_wrong_command_line_points_to_the_help_of_its_command() {
        let lines: [(&[&str], &str); 7] = [
            (&["weft", "fs", "--cluster", "c.toml", "rm"], "(see `weft fs rm --help`)"),
            (&["weft", "fs", "--json", "-q", "rm"], "(see `weft fs rm --help`)"),
            (&["weft", "fs", "--cluster=c.toml", "truncate", "a", "-1"], "(see `weft fs truncate --help`)"),
            (&["weft", "run", "s.toml", "--sed", "1"], "(see `weft run --help`)"),
            (&["weft", "check", "srsl", "--faults", "many"], "(see `weft check --help`)"),
            (&["weft", "bench", "fabric", "--nodes", "x"], "(see `weft bench fabric --help`)"),
            (&["weft", "fly"], "(see `weft --help`)"),
        ];
        for (line, help) in lines {
            let text = told(line);
            assert!(text.ends_with(help), "{line:?}: {text}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_is_told_what_it_can_be() {
        let lines: [(&[&str], &str); 4] = [
            (&["run", "s.toml", "--seed", "99999999999999999999"], "from 0 to 18446744073709551615"),
            (&["run", "s.toml", "--seed", "-1"], "from 0 to 18446744073709551615"),
            (&["fs", "truncate", "a", "-1"], "from 0 to 18446744073709551615"),
            (&["check", "srsl", "--max-depth", "0"], "0 is not in 1.."),
        ];
        for (line, says) in lines {
            let text = told(&[&["weft"], line].concat());
            assert!(text.contains(says), "{line:?}: {text}");
        }
    }

    #[test]
    fn a_tip_is_told_where_it_helps() {
        assert_eq!(
            told(&["weft", "check", "srsl", "--requests", "0"]),
            "unexpected argument '--requests' found (see `weft check --help`)"
        );
        assert!(told(&["weft", "run", "s.toml", "--sed", "1"]).contains("'--seed'"));
    }

    #[test]
    fn a_wrong_command_line_is_told_in_one_line() {
        let wrong: [&[&str]; 5] = [
            &["weft"],
            &["weft", "fly"],
            &["weft", "run"],
            &["weft", "run", "s.toml", "--seed", "x"],
            &["weft", "run", "s.toml", "--seed", "1", "--seeds", "0..4"],
        ];
        for line in wrong {
            let text = told(line);
            assert!(!text.contains('\n') && !text.is_empty(), "{line:?}: {text}");
        }
    }
}

//! `weft completions` and `weft man`: made from the command line's own description.

use crate::args::{BenchSystemArgs, Cli};
use crate::exit::{Exit, Failure};
use crate::explore::{self, files};
use crate::making_args::{CompletionsArgs, ManArgs};
use crate::{help, output};
use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use std::fs;
use std::path::Path;
use weft_check::systems::{self, Registered};
use weft_sim::profile::Profile;

/// Prints what a shell needs to complete command lines of `weft`.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut with_names(Cli::command()), "weft", &mut text);
    output::text(&String::from_utf8_lossy(&text)).map(|()| Exit::Held)
}

/// The same with the names that there are of worlds, papers, profiles and systems. (Read so, it would refuse what else they can be: a file,
/// the beginning of a name.)
fn with_names(program: Command) -> Command {
    let names = |command: Command, arg: &str, names: Vec<&'static str>| {
        command
            .mut_arg(arg, |arg| arg.value_parser(PossibleValuesParser::new(names)).hide_possible_values(true))
    };
    let worlds = || explore::all().iter().map(|world| world.name).collect();
    let papers = || systems::papers().map(|paper| paper.name).collect();
    let benches = |bench: Command| {
        let of = |system: &&dyn Registered| {
            BenchSystemArgs::command().name(system.kind()).mut_arg("system", |arg| arg.hide(true))
        };
        bench.subcommands(systems::all().iter().map(of))
    };
    program
        .mut_subcommand("check", |command| names(command, "world", worlds()))
        .mut_subcommand("fuzz", |command| names(command, "world", worlds()))
        .mut_subcommand("paper", |command| names(command, "name", papers()))
        .mut_subcommand("profiles", |command| names(command, "name", Profile::names().collect()))
        .mut_subcommand("bench", benches)
}

/// Prints the manual page of `weft`, or writes it and one of each command, and of the commands of that, into a folder.
pub fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let mut program = without_help(Cli::command());
    program.build();
    let Some(folder) = &args.folder else {
        return output::text(&page(program)?).map(|()| Exit::Held);
    };
    fs::create_dir_all(folder)
        .map_err(|why| Failure::bad_input(format!("cannot make {}: {why}", folder.display())))?;
    write(folder, &program)?;
    // Systems are no commands of the command line's description.
    write(folder, &BenchSystemArgs::command().display_name("weft-bench-system"))?;
    Ok(Exit::Held)
}

/// `help` is a command of every command that has some; its pages would say nothing.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Writes the page of a command and those of its commands.
fn write(folder: &Path, command: &Command) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
    files::put(&folder.join(format!("{name}.1")), "the manual page", &page(command.clone())?)?;
    help::shown(command).try_for_each(|command| write(folder, command))
}

fn page(command: Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let of = concat!("weft ", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command).source(of).manual("Weft");
    page.render(&mut text).map_err(Failure::unfinished)?;
    Ok(headed(&String::from_utf8_lossy(&text)))
}

/// What stands below the help has headings of its own, as in "Examples:"; each begins a section.
fn headed(page: &str) -> String {
    let (above, below) = page.split_once(".SH EXTRA\n").unwrap_or((page, ""));
    let section = |line: &str| match line.strip_suffix(':') {
        Some(heading) if !line.starts_with(' ') => format!(".SH {:?}\n", heading.to_uppercase()),
        _ => format!("{line}\n"),
    };
    below.lines().fold(above.to_string(), |text, line| text + &section(line))
}

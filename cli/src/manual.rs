//! `weft completions` and `weft man`: made from the command line's own description.

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use crate::making_args::{CompletionsArgs, ManArgs};
use crate::{explore::files, help, output};
use clap::{Command, CommandFactory};
use std::fs;

/// Prints what a shell needs to complete command lines of `weft`.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weft", &mut text);
    output::text(&String::from_utf8_lossy(&text)).map(|()| Exit::Held)
}

/// Prints the manual page of `weft`, or writes it and one of each command into a folder.
pub fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let mut program = Cli::command();
    program.build();
    let Some(folder) = &args.folder else {
        return output::text(&page(program)?).map(|()| Exit::Held);
    };
    fs::create_dir_all(folder)
        .map_err(|why| Failure::bad_input(format!("cannot make {}: {why}", folder.display())))?;
    for command in std::iter::once(&program).chain(help::shown(&program)) {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
        files::put(&folder.join(format!("{name}.1")), "the manual page", &page(command.clone())?)?;
    }
    Ok(Exit::Held)
}

fn page(command: Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).map_err(Failure::unfinished)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

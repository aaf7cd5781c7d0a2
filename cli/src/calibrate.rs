//! `weft calibrate`: a profile from what this machine's device takes.

use crate::device::Choice;
use crate::device_args::CalibrateArgs;
use crate::exit::{Exit, Failure};
use crate::table::{Table, micros};
use crate::{explore::files, interrupt, output};
use serde::Serialize;
use std::path::Path;
use weft_check::calibrate::{self, Measured, Prober, Said};
use weft_hw::{Driver, Ended, Hw, HwContext};
use weft_sim::profile::Profile;
use weft_verbs::Context;

/// Measures, shows, and writes the file.
pub fn run(args: &CalibrateArgs) -> Result<Exit, Failure> {
    let base = Profile::find(&args.base).map_err(Failure::bad_input)?;
    let name = args.file.as_deref().map_or(Ok("this machine".to_string()), name_of)?;
    let context = Choice::from(&args.on).open(None)?;
    interrupt::install();
    let said = Said {
        device: context.device_attr(),
        port: context.port_attr(context.port()).map_err(Failure::unfinished)?,
    };
    let measured = measure(&context, args.rounds as usize)?;
    let profile = calibrate::profile(&name, &measured, &said, &base).map_err(Failure::unfinished)?;
    let report = Report {
        device: context.device_name().to_string(),
        port: context.port(),
        operations: operations(&measured, &profile, &base),
        figures: profile.figures().iter().filter(|figure| !figure.source.starts_with("not measured")).count(),
        of: profile.figures().len(),
    };
    match args.json {
        true => output::json(&report)?,
        false => output::text(&report.text(&base.name))?,
    }
    if let Some(path) = &args.file {
        files::put(path, "the profile", &profile.to_toml())?;
        let path = path.display();
        if !args.json {
            output::text(&format!(
                "{path}: `weft profiles {path}` shows it, `profile = \"{path}\"` uses it\n"
            ))?;
        }
    }
    Ok(Exit::Held)
}

/// A profile is called as its file.
fn name_of(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let name =
        path.file_stem().and_then(|name| name.to_str()).filter(|_| Profile::is_file(&shown.to_string()));
    let name = name.ok_or_else(|| Failure::bad_input(format!("{shown}: a profile's file ends in .toml")))?;
    match path.exists() {
        true => Err(Failure::bad_input(format!("{shown} is there already: give another name, or remove it"))),
        false => Ok(name.to_string()),
    }
}

fn measure(context: &HwContext, rounds: usize) -> Result<Measured, Failure> {
    let gid = context.usable_gid(context.port()).map_err(Failure::unfinished)?;
    let (mut prober, place) = Prober::<Hw>::new(context, context.port(), gid, rounds);
    let mut driver = Driver::new(std::slice::from_ref(context)).map_err(Failure::unfinished)?;
    let ended = driver.run(&mut prober, interrupt::requested);
    match (ended, place.take()) {
        (Ended::Done, Some(measured)) => {
            measured.map_err(|why| Failure::unfinished(format!("device {}: {why}", context.device_name())))
        }
        _ => Err(Failure::unfinished("left on request")),
    }
}

#[derive(Serialize)]
struct Report {
    device: String,
    port: u8,
    operations: Vec<Operation>,
    /// How many figures come from this machine, and how many there are.
    figures: usize,
    of: usize,
}

/// An operation within the machine, in nanoseconds.
#[derive(Serialize)]
struct Operation {
    name: &'static str,
    /// None: the device has no remote atomics.
    measured: Option<u64>,
    profile: u64,
    base: u64,
}

fn operations(measured: &Measured, profile: &Profile, base: &Profile) -> Vec<Operation> {
    let ours = calibrate::operations(profile).into_iter().zip(calibrate::measured_operations(measured));
    let all = ours.zip(calibrate::operations(base));
    all.map(|(((name, profile), measured), (_, base))| Operation { name, measured, profile, base }).collect()
}

impl Report {
    fn text(&self, base: &str) -> String {
        let title = format!(
            "Operations of {}, port {}, from one queue pair to another of the same\nadapter, in microseconds",
            self.device, self.port
        );
        let mut table = Table::new(&title, 1, &["operation", "measured", "profile", base]);
        for Operation { name, measured, profile, base } in &self.operations {
            let measured = measured.map_or("-".to_string(), micros);
            table.row([(*name).to_string(), measured, micros(*profile), micros(*base)]);
        }
        let mut text = String::new();
        table.print(&mut text);
        if self.operations.iter().any(|operation| operation.measured.is_none()) {
            text.push_str(&format!(
                "\nThe device has no remote atomics: their figures are those of {base}.\n"
            ));
        }
        text.push_str(&format!(
            "\n{} of {} figures are from this machine, the others from {base}.\n",
            self.figures, self.of
        ));
        text.trim_start().to_string()
    }
}

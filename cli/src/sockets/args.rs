//! The command lines of `weft pipe`, `weft cp` and `weft perf`.

use crate::port_args::PortArgs;
use clap::Args;
use std::path::PathBuf;
use weft_control::net::Endpoint;
use weft_protocols::sdp::copy::check_name;
use weft_protocols::sdp::perf::Plan;

/// The TCP port at which `weft cp` meets `weft cp --serve`.
pub const COPY_PORT: u16 = 7_473;

#[cfg(feature = "hw")]
pub const PIPE_EXAMPLES: &str = "\
Examples:
  A folder from one machine to another
    weft pipe --listen 7000 | tar x          (on b)
    tar c folder | weft pipe b:7000          (on a)
  A conversation, over two devices
    weft pipe --listen 7000 --device mlx5_0 --device mlx5_1

The two machines meet by TCP, and then use their RDMA devices only: all that
have an IP address, or those that --device names, the first one as long as it
works. Who reaches the port is let in; there is no secret.";

#[cfg(feature = "hw")]
pub const CP_EXAMPLES: &str = "\
Examples:
  Take files into a folder
    weft cp --serve /srv/in                  (on b)
  Copy one there, under its own name, and under another one
    weft cp model.bin b:
    weft cp model.bin b:today/model.bin

A file that is on its way has another name. It gets its own when all of it is
there and on the disk. Who reaches the port may store files; there is no
secret.";

/// `weft pipe`.
#[derive(Debug, Args)]
#[group(id = "end", required = true, multiple = false, args = ["to", "listen"])]
pub struct PipeArgs {
    /// Where the other end listens
    #[arg(value_name = "NODE:PORT", value_parser = Endpoint::with_port)]
    pub to: Option<Endpoint>,
    /// Wait for the other end at this TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub listen: Option<u16>,
    #[command(flatten)]
    pub over: Over,
}

/// `weft cp`.
#[derive(Debug, Args)]
pub struct CpArgs {
    /// The file to copy
    #[arg(required_unless_present = "serve", conflicts_with = "serve", requires = "to")]
    pub file: Option<PathBuf>,
    /// Where to: a machine on which `weft cp --serve` runs, and a path below its folder [default: the file's name]
    #[arg(value_name = "NODE:PATH")]
    pub to: Option<Target>,
    /// Take files into this folder until SIGTERM or Ctrl-C
    #[arg(long, value_name = "DIR")]
    pub serve: Option<PathBuf>,
    /// The TCP port at which the two meet
    #[arg(long, value_name = "PORT", default_value_t = COPY_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    #[command(flatten)]
    pub over: Over,
}

#[cfg(feature = "hw")]
pub const PERF_EXAMPLES: &str = "\
Examples:
  A ping-pong of 64 and of 4,096 bytes, and a bulk transfer
    weft perf --listen 7000                  (on b)
    weft perf b:7000                         (on a)
  What a link costs that fails: 10 GiB, while somebody pulls the cable
    weft perf b:7000 --bytes 65536 --transfers 8192 --rounds 10

A round is so many transfers to the other end and as many back, as rstream of
rdmacm-utils has it. 'longest' is the longest call of read or write: the stall,
where a link failed.";

/// `weft perf`.
#[derive(Debug, Args)]
#[group(id = "place", required = true, multiple = false, args = ["to", "listen"])]
pub struct PerfArgs {
    /// Where the other end listens
    #[arg(value_name = "NODE:PORT", value_parser = Endpoint::with_port)]
    pub to: Option<Endpoint>,
    /// Answer others at this TCP port, one after another, until SIGTERM or Ctrl-C
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub listen: Option<u16>,
    /// Bytes of a transfer, which is one call [default: three measurements, of 64, 4,096 and 65,536]
    #[arg(long, value_name = "N", conflicts_with = "listen", value_parser = clap::value_parser!(u32).range(1..=Plan::MOST_BYTES as i64))]
    pub bytes: Option<u32>,
    /// Transfers each way in a round
    #[arg(long, value_name = "N", requires = "bytes", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=Plan::MOST as i64))]
    pub transfers: u32,
    /// Rounds
    #[arg(long, value_name = "N", requires = "bytes", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=Plan::MOST as i64))]
    pub rounds: u32,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub over: Over,
}

/// What these commands run over.
#[derive(Clone, Debug, Args)]
pub struct Over {
    /// An RDMA device; several times for several rails, in the same order at both ends [default: all with an IP address]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Where on each of them
    #[command(flatten)]
    pub at: PortArgs,
    /// How long to look for what comes before sleeping until the device says so: more is a processor for less delay
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10)]
    pub spin: u32,
    /// The traffic class of what this end sends: on RoCE the DSCP times four [default: 0, as the system has it]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub traffic_class: u8,
    /// Show no progress, and say nothing at the end
    #[arg(long, short)]
    pub quiet: bool,
}

/// `NODE:PATH`, as of `scp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name or an address.
    pub node: String,
    /// The path; empty or with a slash at its end for a file of the same name there.
    pub path: String,
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let wrong = || format!("'{text}' is no NODE:PATH");
        let (node, path) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(wrong)?,
            None => text.split_once(':').ok_or_else(wrong)?,
        };
        if node.is_empty() || node.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Target { node: node.to_string(), path: path.to_string() })
    }
}

impl Target {
    /// The name under which a file is stored there.
    pub fn name_of(&self, file: &std::path::Path) -> Result<String, String> {
        let mut name = self.path.clone();
        if name.is_empty() || name.ends_with('/') {
            let own = file.file_name().and_then(|own| own.to_str());
            name += own.ok_or_else(|| format!("{} has no name of its own to use there", file.display()))?;
        }
        check_name(&name).map_err(|why| why.to_string())?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Line<T: Args> {
        #[command(flatten)]
        args: T,
    }

    fn is_taken<T: Args>(line: &[&str]) -> bool {
        Line::<T>::try_parse_from(line).map(|line| line.args).is_ok()
    }

    #[test]
    fn who_listens_says_a_port_at_which_others_can_find_it() {
        for (port, taken) in [("0", false), ("1", true), ("65535", true), ("65536", false)] {
            assert_eq!(is_taken::<PipeArgs>(&["pipe", "--listen", port]), taken, "{port}");
            assert_eq!(is_taken::<PerfArgs>(&["perf", "--listen", port]), taken, "{port}");
            assert_eq!(is_taken::<CpArgs>(&["cp", "--serve", "in", "--port", port]), taken, "{port}");
        }
    }

    #[test]
    fn the_port_and_the_address_of_an_adapter_can_be_said() {
        for line in [&["pipe", "b:7000"][..], &["cp", "x", "b:"], &["perf", "b:7000"]] {
            let given = [line, &["--device-port", "2", "--gid", "5"]].concat();
            let over = |line: &[&str]| match line[0] {
                "pipe" => Line::<PipeArgs>::try_parse_from(line).map(|line| line.args.over),
                "cp" => Line::<CpArgs>::try_parse_from(line).map(|line| line.args.over),
                _ => Line::<PerfArgs>::try_parse_from(line).map(|line| line.args.over),
            };
            let at = over(&given).expect("it is taken").at;
            assert_eq!((at.device_port, at.gid), (Some(2), Some(5)), "{given:?}");
        }
    }

    #[test]
    fn a_target_is_a_node_and_a_path_below_what_it_serves() {
        let name = |text: &str, file: &str| {
            let target: Target = text.parse()?;
            target.name_of(Path::new(file)).map(|name| (target.node, name))
        };
        let is = |node: &str, path: &str| Ok((node.to_string(), path.to_string()));
        assert_eq!(name("b:", "/tmp/x.bin"), is("b", "x.bin"));
        assert_eq!(name("b:in/", "x.bin"), is("b", "in/x.bin"));
        assert_eq!(name("b:in/y", "x.bin"), is("b", "in/y"));
        assert_eq!(name("[::1]:y", "x.bin"), is("::1", "y"));
        for wrong in ["b", ":x", "b:/etc/passwd", "b:../x", "a b:x", "[::1]y"] {
            assert!(name(wrong, "x.bin").is_err(), "{wrong}");
        }
        assert!(name("b:", "/").is_err());
    }
}

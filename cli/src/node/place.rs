//! A node's place in its cluster: its rank, how many there are, and where they meet.
//!
//! Flags come first. Otherwise the launcher's environment says it: Slurm's `srun`, or Open MPI's `mpirun`. In a job of Slurm's
//! processes of `mpirun` see the variables of both, and Slurm's are those of the daemons that `mpirun` started.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use weft_control::net::Endpoint;

/// A node's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which node, from 0.
    pub rank: u32,
    /// How many nodes there are.
    pub nodes: u32,
    /// The machine at which all meet.
    pub meeting: String,
}

/// What the command line says; the rest is the launcher's to say.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// `--rank`.
    pub rank: Option<u32>,
    /// `--nodes`.
    pub nodes: Option<u32>,
    /// `--meet`.
    pub meet: Option<String>,
    /// How many nodes the scenario has.
    pub of_scenario: u32,
}

/// Environment variables of this process.
pub type Environment = BTreeMap<String, String>;

/// Finds a node's place.
pub fn find(given: &Given, environment: &Environment) -> Result<Place, String> {
    let number = |name: &str| {
        let said = environment.get(name).map(|text| (text, text.parse()));
        let wrong = |text: &str| format!("{name} is '{}', and no number", text.escape_default());
        said.map(|(text, number)| number.map_err(|_| wrong(text))).transpose()
    };
    let (rank, nodes) = match is_of_open_mpi(environment) {
        true => ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        false => ("SLURM_PROCID", "SLURM_NTASKS"),
    };
    let given_or =
        |given: Option<u32>, name: &str| given.map_or_else(|| number(name), |given| Ok(Some(given)));
    let (rank, nodes) = (given_or(given.rank, rank)?, given_or(given.nodes, nodes)?);
    let rank = rank.ok_or("which node this is, nobody says: give --rank, or start it with srun or mpirun")?;
    let nodes = nodes.unwrap_or(given.of_scenario);
    let meeting = given
        .meet
        .clone()
        .or_else(|| meeting_place(environment))
        .ok_or("where the nodes meet, nobody says: give --meet with the machine of node 0")?;
    if nodes != given.of_scenario {
        return Err(format!("the scenario has {} nodes, and {nodes} were started", given.of_scenario));
    }
    if rank >= nodes {
        return Err(format!("there is no node {rank} among {nodes}"));
    }
    Ok(Place { rank, nodes, meeting })
}

/// Whether Open MPI started this process, maybe in a job of Slurm's.
fn is_of_open_mpi(environment: &Environment) -> bool {
    environment.contains_key("OMPI_COMM_WORLD_RANK")
}

/// The machine of node 0, as the launcher names it.
fn meeting_place(environment: &Environment) -> Option<String> {
    let step = match is_of_open_mpi(environment) {
        // The step of its daemons: the machine on which it was started has none.
        true => None,
        false => environment.get("SLURM_STEP_NODELIST"),
    };
    let job = ["SLURM_JOB_NODELIST", "SLURM_NODELIST"].iter().find_map(|name| environment.get(*name));
    if let Some(list) = step.or(job) {
        return first_host(list);
    }
    // Open MPI does not list its machines; its first daemon's is the one on which `mpirun` was typed. See `meets_here`.
    let uris = ["OMPI_MCA_orte_hnp_uri", "OMPI_MCA_prte_hnp_uri", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4"];
    let first = uris.iter().find_map(|name| host_of_uri(environment.get(*name)?));
    first.or_else(|| host_of_namespace(environment.get("PMIX_NAMESPACE")?))
}

/// Checks that a meeting place that a launcher named is on this machine, that of node 0: the rest would wait for it in vain. What the
/// name stands for may not be known yet; then they do wait.
pub fn meets_here(meeting: &str) -> Result<(), String> {
    match TcpListener::bind((meeting, 0)) {
        Err(why) if why.kind() == ErrorKind::AddrNotAvailable => Err(format!(
            "the launcher says that nodes meet at {meeting}, and node 0 is on another machine: give --meet with that of node 0"
        )),
        _ => Ok(()),
    }
}

/// The first machine of a Slurm list: `rack1-n[03-05,9],login` begins with `rack1-n03`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at(end);
    let Some(ranges) = rest.strip_prefix('[') else {
        return (!name.is_empty()).then(|| name.to_string());
    };
    let digits: String = ranges.chars().take_while(char::is_ascii_digit).collect();
    let (_, tail) = ranges.split_once(']')?;
    let tail: String = tail.chars().take_while(|c| !",[".contains(*c)).collect();
    (!digits.is_empty()).then(|| format!("{name}{digits}{tail}"))
}

/// The first address of `3424256.0;tcp://192.168.1.1,10.0.0.1:39217`. None if that is not the first daemon's, whose name ends in `.0`, or
/// if other machines do not reach it.
fn host_of_uri(uri: &str) -> Option<String> {
    let (daemon, addresses) = uri.split_once("://")?;
    let (name, _) = daemon.split_once(';')?;
    let host: String = addresses.chars().take_while(|c| !",:;".contains(*c)).collect();
    let is_reached = host.parse::<Ipv4Addr>().is_ok_and(|address| !address.is_loopback());
    (name.ends_with(".0") && is_reached).then_some(host)
}

/// The machine in `prterun-HOST-PID@1`, Open MPI 5's name of a run: the one on which it was started.
fn host_of_namespace(namespace: &str) -> Option<String> {
    let (run, _) = namespace.strip_prefix("prterun-")?.split_once('@')?;
    let (host, _) = run.rsplit_once('-')?;
    (!host.is_empty() && !Endpoint::new(host, 0).is_loopback()).then(|| host.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn place(rank: u32, meeting: &str) -> Result<Place, String> {
        Ok(Place { rank, nodes: 3, meeting: meeting.to_string() })
    }

    const SCENARIO: Given = Given { rank: None, nodes: None, meet: None, of_scenario: 3 };

    #[test]
    fn slurm_says_everything() {
        let lists = [
            ("rack1-n[03-05]", "rack1-n03"),
            ("n[1,7-9],login", "n1"),
            ("a,b,c", "a"),
            ("one", "one"),
            ("r[2-4]-eth", "r2-eth"),
        ];
        for (list, first) in lists {
            let seen =
                environment(&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "3"), ("SLURM_JOB_NODELIST", list)]);
            assert_eq!(find(&SCENARIO, &seen), place(2, first), "{list}");
        }
    }

    #[test]
    fn open_mpi_says_everything() {
        let seen = environment(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_MCA_orte_hnp_uri", "3424256.0;tcp://192.168.1.1,10.0.0.1:39217"),
        ]);
        assert_eq!(find(&SCENARIO, &seen), place(1, "192.168.1.1"));
    }

    /// Slurm knows the daemons that `mpirun` started, one a machine, and not what these started.
    #[test]
    fn in_a_job_of_slurm_open_mpi_says_everything_but_the_machines() {
        let seen = environment(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "2"),
            ("SLURM_STEP_NODELIST", "n2"),
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
        ]);
        assert_eq!(find(&SCENARIO, &seen), place(1, "n1"));
    }

    #[test]
    fn open_mpi_5_says_where_it_was_started() {
        let places = [
            ("prterun-n-1-4711@0.0;tcp4://10.0.0.1:39217", "prterun-n-1-4711@1", Some("10.0.0.1")),
            // Of the machine's own daemon, by which nobody else reaches it.
            ("prterun-n-1-4711@0.1;tcp4://127.0.0.1:1", "prterun-n-1-4711@1", Some("n-1")),
            ("prterun-n-1-4711@0.0;tcp4://127.0.0.1:1", "prterun-n-1-4711@1", Some("n-1")),
            ("prterun-n-1-4711@0.1;tcp4://10.0.0.2:39217", "prterun-n-1-4711@1", Some("n-1")),
            ("prterun-n-1-4711@0.0;tcp6://[fe80::1]:39217", "prterun-n-1-4711@1", Some("n-1")),
            ("prterun-n-1-4711@0.1;tcp4://127.0.0.1:1", "prterun-localhost-4711@1", None),
            ("prterun-n-1-4711@0.1;tcp4://127.0.0.1:1", "another", None),
        ];
        for (uri, namespace, meeting) in places {
            let seen = environment(&[
                ("OMPI_COMM_WORLD_RANK", "1"),
                ("OMPI_COMM_WORLD_SIZE", "3"),
                ("PMIX_SERVER_URI41", uri),
                ("PMIX_NAMESPACE", namespace),
            ]);
            match meeting {
                Some(meeting) => assert_eq!(find(&SCENARIO, &seen), place(1, meeting), "{uri} {namespace}"),
                None => assert!(find(&SCENARIO, &seen).unwrap_err().contains("--meet"), "{uri} {namespace}"),
            }
        }
    }

    #[test]
    fn flags_come_first() {
        let seen = environment(&[("SLURM_PROCID", "2"), ("SLURM_JOB_NODELIST", "a")]);
        let given = Given { rank: Some(0), nodes: Some(3), meet: Some("b".into()), ..SCENARIO };
        assert_eq!(find(&given, &seen), place(0, "b"));
    }

    /// The second address is for examples in documents, and no machine has it (RFC 5737).
    #[test]
    fn a_meeting_place_on_another_machine_than_node_0_is_refused_at_once() {
        assert_eq!(meets_here("127.0.0.1"), Ok(()));
        assert!(meets_here("192.0.2.1").unwrap_err().contains("--meet"));
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let none = environment(&[]);
        assert!(find(&SCENARIO, &none).unwrap_err().contains("--rank"));
        let odd = environment(&[("SLURM_PROCID", "abc")]);
        assert_eq!(find(&SCENARIO, &odd).unwrap_err(), "SLURM_PROCID is 'abc', and no number");
        let given = Given { rank: Some(0), ..SCENARIO };
        assert!(find(&given, &none).unwrap_err().contains("--meet"));
        let given = Given { rank: Some(3), meet: Some("b".into()), ..SCENARIO };
        assert!(find(&given, &none).unwrap_err().contains("no node 3"));
        let given = Given { rank: Some(0), nodes: Some(4), meet: Some("b".into()), ..SCENARIO };
        assert!(find(&given, &none).unwrap_err().contains("the scenario has 3 nodes"));
    }

    #[test]
    fn nonsense_in_the_environment_is_nothing() {
        for list in ["", "[", "n[", "n[]", "n[x]"] {
            assert_eq!(first_host(list), None, "{list}");
        }
        assert_eq!(host_of_uri("no address"), None);
    }
}

//! The machines' processes, from boot to the last line of output.

use crate::control::{Request, Rule};
use crate::faults::{RuleId, Rules};
use crate::frame::mac_text;
use crate::hub::Hub;
use crate::image::{Content, build};
use crate::kernel::Kernel;
use crate::packages::program;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A cluster to boot.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many machines.
    pub machines: usize,
    /// Memory of each, in MiB.
    pub memory: u32,
    /// A disk of each, in MiB, with an empty file system, which outlives its machine's power.
    pub disk: Option<u32>,
    /// What they contain and run.
    pub content: Content,
    /// What happens to them, and when: by the time since all of them were up, or since [`Plan::since`].
    pub events: Vec<(Duration, Event)>,
    /// The moments of events count from the first line of output that contains this: a slow machine is disturbed at
    /// the same point of its program as a quick one.
    pub since: Option<String>,
    /// How long everything may take, boot included.
    pub timeout: Duration,
    /// Their clocks count instructions, 8 ns each, as QEMU's `-icount shift=3` has it: a span in which a processor was busy
    /// is then a count, and the same whatever else runs on this machine.
    pub count_instructions: bool,
    /// Where images and consoles are written.
    pub folder: PathBuf,
}

/// Something that happens to a cluster from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rule comes into force, for a time or for good.
    Rule(Rule, Option<Duration>),
    /// A machine loses its power; and is booted again so long after, if it is.
    Kill(usize, Option<Duration>),
}

/// How a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its program ended with this code.
    Exit(i32),
    /// It was killed, as planned.
    Killed,
    /// It stopped without a word: see its console.
    Lost,
}

enum News {
    Up(usize),
    Line(usize, String),
    Ended(usize, i32),
    /// The machine's control port has closed.
    Gone(usize),
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How each machine ended.
    pub endings: Vec<Ending>,
    /// Machines that were to lose their power and had not when all programs had ended: what that is to show was not shown. (How far a run
    /// has come when a link is cut depends on how fast the machine is: a cut may come too late.)
    pub missed: usize,
}

impl Plan {
    /// Refuses events of machines and cards that there are not.
    ///
    /// # Errors
    /// One is.
    pub fn check(&self) -> Result<()> {
        let cards = self.machines * self.content.nics;
        for (_, event) in &self.events {
            match *event {
                Event::Kill(number, _) => {
                    ensure!(
                        number < self.machines,
                        "there is no machine {number}: there are {}",
                        self.machines
                    );
                }
                Event::Rule(Rule { from, to, .. }, _) => {
                    let card = from.max(to);
                    ensure!(card < cards, "there is no card {card}: there are {cards}");
                }
            }
        }
        Ok(())
    }
}

/// Boots a cluster, runs its program, and says how it ended. `output` is told each line as it comes, with
/// the machine's number. Nothing is left behind but the consoles.
pub fn run(
    kernel: &Kernel,
    plan: &Plan,
    stop: &AtomicBool,
    output: &mut dyn FnMut(usize, &str),
) -> Result<Outcome> {
    plan.check()?;
    let began = Instant::now();
    fs::create_dir_all(&plan.folder)?;
    let image = plan.folder.join("initramfs.cpio");
    fs::write(&image, build(kernel, &plan.content)?)?;
    for number in 0..plan.machines {
        make_disk(plan, number)?;
    }
    let hub = Hub::start(plan.machines * plan.content.nics)?;
    let (tell, news) = mpsc::channel();
    let mut cluster = Cluster {
        machines: Vec::new(),
        rules: hub.rules(),
        events: plan.events.clone(),
        since: plan.since.clone(),
        zero: None,
        begun: false,
        boot: &|number| Machine::boot(kernel, plan, &image, &hub, number, &tell),
        dark: Vec::new(),
    };
    for number in 0..plan.machines {
        let machine = (cluster.boot)(number)?;
        cluster.machines.push(machine);
    }
    let ended = cluster.drive(&news, began + plan.timeout, stop, output);
    drop(cluster);
    let _ = fs::remove_file(&image);
    for number in 0..plan.machines {
        let _ = fs::remove_file(disk_of(plan, number));
    }
    ended
}

/// Where a machine's disk is.
fn disk_of(plan: &Plan, number: usize) -> PathBuf {
    plan.folder.join(format!("disk-{number}.img"))
}

fn make_disk(plan: &Plan, number: usize) -> Result<()> {
    let Some(size) = plan.disk else { return Ok(()) };
    let path = disk_of(plan, number);
    fs::File::create(&path)?.set_len(u64::from(size) << 20)?;
    let mkfs = program("mkfs.ext4").context("no mkfs.ext4: install e2fsprogs")?;
    let made = Command::new(mkfs).args(["-q", "-F"]).arg(&path).output()?;
    ensure!(made.status.success(), "mkfs.ext4: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

struct Machine {
    process: Child,
    /// How often it was booted.
    boots: u32,
    ending: Option<Ending>,
    up: bool,
    console: PathBuf,
    control: Arc<Mutex<Option<TcpStream>>>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Machine {
    fn boot(
        kernel: &Kernel,
        plan: &Plan,
        image: &Path,
        hub: &Hub,
        number: usize,
        tell: &Sender<News>,
    ) -> Result<Machine> {
        let control = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let output = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let monitor = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let console = plan.folder.join(format!("console-{number}.log"));
        let mut qemu = qemu(kernel, plan, image, number);
        for card in 0..plan.content.nics {
            let nic = number * plan.content.nics + card;
            let port = hub.port(nic);
            qemu.arg("-netdev").arg(format!(
                "stream,id=c{card},server=off,addr.type=inet,addr.host=127.0.0.1,addr.port={port}"
            ));
            qemu.arg("-device").arg(format!("virtio-net-pci,netdev=c{card},mac={},romfile=", mac_text(nic)));
        }
        if plan.disk.is_some() {
            // What the guest has flushed is in the file when its power goes; what it has not is in its memory.
            let disk = disk_of(plan, number).display().to_string().replace(',', ",,");
            qemu.arg("-drive").arg(format!("file={disk},format=raw,if=virtio"));
        }
        qemu.arg("-serial").arg(format!("file:{}", console.display()));
        for listener in [&control, &output] {
            qemu.arg("-serial").arg(format!("tcp:127.0.0.1:{}", listener.local_addr()?.port()));
        }
        let port = monitor.local_addr()?.port();
        qemu.arg("-chardev").arg(format!("socket,id=monitor,host=127.0.0.1,port={port}"));
        qemu.args(["-mon", "chardev=monitor,mode=readline"]);
        let errors = fs::File::create(plan.folder.join(format!("qemu-{number}.log")))?;
        qemu.stdin(Stdio::null()).stdout(errors.try_clone()?).stderr(errors);
        let process = qemu.spawn().context("qemu-system-x86_64 did not start")?;
        let writer = Arc::new(Mutex::new(None));
        let switches = Switches { rules: hub.rules(), monitor: drain(monitor) };
        listen_to_control(number, control, Arc::clone(&writer), switches, tell.clone());
        listen_to_output(number, output, tell.clone());
        Ok(Machine { process, boots: 1, ending: None, up: false, console, control: writer })
    }

    /// Lets the machine's program begin.
    fn begin(&self) {
        if let Some(stream) = &mut *self.control.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = stream.write_all(b"ok 0\n");
        }
    }

    /// The console's last lines.
    fn last_words(&self) -> String {
        let text = fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// A machine's command line, but for what depends on ports. `setpriv` has the kernel kill it with us, whatever ends us;
/// `nice`, because each keeps a core busy.
fn qemu(kernel: &Kernel, plan: &Plan, image: &Path, number: usize) -> Command {
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", "nice", "-n", "10", "qemu-system-x86_64"]);
    qemu.args(["-machine", "q35", "-accel", "tcg", "-cpu", "max", "-display", "none"]);
    qemu.args(["-no-reboot", "-nic", "none", "-m", &format!("{}M", plan.memory)]);
    qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(image);
    if plan.count_instructions {
        qemu.args(["-icount", "shift=3"]);
    }
    let (node, nodes) = (number, plan.machines);
    qemu.arg("-append").arg(format!(
        "console=ttyS0 quiet panic=-1 softroce.node={node} softroce.nodes={nodes} 8250.nr_uarts=4"
    ));
    qemu
}

/// Serves a machine's requests about faults, and passes on what it says of itself.
fn listen_to_control(
    number: usize,
    listener: TcpListener,
    writer: Arc<Mutex<Option<TcpStream>>>,
    switches: Switches,
    tell: Sender<News>,
) {
    thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        let _ = stream.set_nodelay(true);
        *writer.lock().unwrap_or_else(PoisonError::into_inner) = stream.try_clone().ok();
        let mut answer = stream.try_clone();
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let said = match line.trim().parse() {
                Ok(Request::Ready) => {
                    let _ = tell.send(News::Up(number));
                    continue;
                }
                Ok(Request::Exit(code)) => {
                    let _ = tell.send(News::Ended(number, code));
                    Ok(0)
                }
                Ok(other) => Ok(switches.serve(other)),
                Err(why) => Err(why),
            };
            let text = said.map_or_else(|why| format!("error {why}\n"), |number| format!("ok {number}\n"));
            if let Ok(stream) = &mut answer {
                let _ = stream.write_all(text.as_bytes());
            }
        }
        let _ = tell.send(News::Gone(number));
    });
}

/// What a machine's program may change.
struct Switches {
    rules: Arc<Mutex<Rules>>,
    /// Its own QEMU's monitor.
    monitor: Arc<Mutex<Option<TcpStream>>>,
}

impl Switches {
    fn serve(&self, request: Request) -> u64 {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        match request {
            Request::Push(rule) => return rules.push(rule),
            Request::Struck(id) => return rules.struck(id),
            Request::Remove(id) => rules.remove(id),
            Request::Clear => rules.clear(),
            Request::Carrier(card, on) => self.set_carrier(card, on),
            Request::Ready | Request::Exit(_) => {}
        }
        0
    }

    fn set_carrier(&self, card: usize, on: bool) {
        if let Some(monitor) = &mut *self.monitor.lock().unwrap_or_else(PoisonError::into_inner) {
            let state = if on { "on" } else { "off" };
            let _ = monitor.write_all(format!("set_link c{card} {state}\n").as_bytes());
        }
    }
}

/// Takes a monitor's connection, and reads what it says so that it never waits.
fn drain(listener: TcpListener) -> Arc<Mutex<Option<TcpStream>>> {
    let monitor = Arc::new(Mutex::new(None));
    let writer = Arc::clone(&monitor);
    thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        *writer.lock().unwrap_or_else(PoisonError::into_inner) = stream.try_clone().ok();
        let _ = io::copy(&mut stream, &mut io::sink());
    });
    monitor
}

fn listen_to_output(number: usize, listener: TcpListener, tell: Sender<News>) {
    thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            if tell.send(News::Line(number, text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

struct Cluster<'a> {
    machines: Vec<Machine>,
    rules: Arc<Mutex<Rules>>,
    /// What is to happen still.
    events: Vec<(Duration, Event)>,
    /// The line from which on it is to happen, and when that was.
    since: Option<String>,
    zero: Option<Instant>,
    /// All machines were up, and their programs begin.
    begun: bool,
    /// Boots a machine.
    boot: &'a dyn Fn(usize) -> Result<Machine>,
    /// Machines without power, and when they are booted again.
    dark: Vec<(Instant, usize)>,
}

/// How often deadlines, processes and requests to stop are looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// How long after a machine's end its last lines may take.
const LAST_LINES: Duration = Duration::from_millis(500);

impl Cluster<'_> {
    fn drive(
        &mut self,
        news: &Receiver<News>,
        deadline: Instant,
        stop: &AtomicBool,
        output: &mut dyn FnMut(usize, &str),
    ) -> Result<Outcome> {
        let mut healing: Vec<(Instant, RuleId)> = Vec::new();
        while self.machines.iter().any(|machine| machine.ending.is_none()) {
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if Instant::now() > deadline {
                self.timed_out()?;
            }
            if !self.begun && self.machines.iter().all(|machine| machine.up) {
                self.begun = true;
                self.zero = self.since.is_none().then(Instant::now);
                self.machines.iter().for_each(Machine::begin);
            }
            if let Some(zero) = self.zero {
                self.strike(zero, &mut healing);
            }
            self.boot_again()?;
            match news.recv_timeout(GLANCE) {
                Ok(item) => self.hear(item, output),
                Err(RecvTimeoutError::Timeout) => self.look_at_processes(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let last = Instant::now() + LAST_LINES;
        while let Ok(item) = news.recv_timeout(last.saturating_duration_since(Instant::now())) {
            self.hear(item, output);
        }
        let endings = self.machines.iter().map(|machine| machine.ending.unwrap_or(Ending::Lost)).collect();
        let missed = self.events.iter().filter(|(_, event)| matches!(event, Event::Kill(..))).count();
        Ok(Outcome { endings, missed })
    }

    fn timed_out(&self) -> Result<()> {
        let silent = self.machines.iter().position(|machine| machine.ending.is_none()).unwrap_or(0);
        let stage = if self.machines[silent].up { "is still running" } else { "did not come up" };
        bail!(
            "out of time: machine {silent} {stage}; its console ends:\n{}",
            self.machines[silent].last_words()
        );
    }

    fn hear(&mut self, item: News, output: &mut dyn FnMut(usize, &str)) {
        match item {
            News::Up(number) => {
                self.machines[number].up = true;
                if self.begun {
                    self.machines[number].begin();
                }
            }
            News::Line(number, line) => {
                if self.zero.is_none() && self.since.as_ref().is_some_and(|text| line.contains(text.as_str()))
                {
                    self.zero = Some(Instant::now());
                }
                output(number, &line);
            }
            News::Ended(number, code) => {
                let machine = &mut self.machines[number];
                machine.ending.get_or_insert(Ending::Exit(code));
                // It answers for its program's end first; it powers off by itself.
                machine.up = true;
            }
            // Of one that has no power for a while, or has it again, this is news of before.
            News::Gone(number) if self.is_dark(number) || self.machines[number].boots > 1 => {}
            News::Gone(number) => {
                self.machines[number].ending.get_or_insert(Ending::Lost);
            }
        }
    }

    fn is_dark(&self, number: usize) -> bool {
        self.dark.iter().any(|(_, dark)| *dark == number)
    }

    /// Boots the machines whose power is back.
    fn boot_again(&mut self) -> Result<()> {
        let now = Instant::now();
        for (_, number) in self.dark.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            let boots = self.machines[number].boots + 1;
            let mut machine = (self.boot)(number)?;
            machine.boots = boots;
            self.machines[number] = machine;
        }
        Ok(())
    }

    fn look_at_processes(&mut self) {
        let dark: Vec<usize> = self.dark.iter().map(|(_, number)| *number).collect();
        for (number, machine) in self.machines.iter_mut().enumerate() {
            if !dark.contains(&number)
                && let Ok(Some(_)) = machine.process.try_wait()
            {
                machine.ending.get_or_insert(Ending::Lost);
            }
        }
    }

    /// Makes the planned events happen whose time has come.
    fn strike(&mut self, zero: Instant, healing: &mut Vec<(Instant, RuleId)>) {
        let now = Instant::now();
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        healing.retain(|(until, id)| {
            if now >= *until {
                rules.remove(*id);
            }
            now < *until
        });
        let (machines, dark) = (&mut self.machines, &mut self.dark);
        self.events.retain(|(at, event)| {
            if now < zero + *at {
                return true;
            }
            match *event {
                Event::Rule(rule, lasts) => {
                    let id = rules.push(rule);
                    healing.extend(lasts.map(|lasts| (now + lasts, id)));
                }
                Event::Kill(number, back) => {
                    if let Some(machine) = machines.get_mut(number) {
                        let _ = machine.process.kill();
                        match back {
                            None => machine.ending = Some(Ending::Killed),
                            Some(back) => dark.push((now + back, number)),
                        }
                    }
                }
            }
            false
        });
    }
}

/// The code of a run that came to no end: a machine did not boot, or stopped without a word, or the time was over; or that ended before
/// a machine lost its power that was to.
pub const UNFINISHED: i32 = 3;

/// One code for a cluster's run: 1 where a program ended with 1, as one that found something wrong does; otherwise the
/// largest of its programs'. A machine that was lost counts as [`UNFINISHED`], and so does one that was to lose its power and did not.
pub fn code(Outcome { endings, missed }: &Outcome) -> i32 {
    let codes = endings.iter().map(|ending| match ending {
        Ending::Exit(code) => *code,
        Ending::Killed => 0,
        Ending::Lost => UNFINISHED,
    });
    let codes = codes.chain((*missed > 0).then_some(UNFINISHED));
    if codes.clone().any(|code| code == 1) { 1 } else { codes.max().unwrap_or(0) }
}

/// A folder for a run's files, which is removed with this value.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A fresh folder under another one.
    pub fn new(under: &Path) -> io::Result<Scratch> {
        let folder = under.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Scratch(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_wrong_is_not_hidden_by_what_came_to_no_end() {
        use Ending::{Exit, Killed, Lost};
        let code = |endings: &[Ending], missed| code(&Outcome { endings: endings.to_vec(), missed });
        assert_eq!(code(&[Exit(0), Exit(1), Lost, Exit(101)], 1), 1);
        assert_eq!(code(&[Exit(0), Exit(101), Lost], 0), 101);
        assert_eq!(code(&[Exit(0), Killed], 0), 0);
        assert_eq!(code(&[Exit(0), Lost], 0), UNFINISHED);
    }

    #[test]
    fn a_run_that_ends_before_what_was_planned_has_happened_is_unfinished() {
        let code = |endings: &[Ending]| code(&Outcome { endings: endings.to_vec(), missed: 1 });
        assert_eq!(code(&[Ending::Exit(0), Ending::Killed]), UNFINISHED);
        assert_eq!(code(&[Ending::Exit(1)]), 1, "what was found wrong is told");
    }
}

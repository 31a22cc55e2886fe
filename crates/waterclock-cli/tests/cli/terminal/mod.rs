//! The binary on a terminal of its own: a real pseudo-terminal, with keys to press and a screen to read.

mod screen;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

pub(crate) use self::screen::Screen;
use crate::support::Place;

/// Nothing that works takes this long.
const LONG: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Terminal {
    child: Child,
    keys: File,
    /// Keeps the other end open, so that its settings can be read after the process has ended.
    line: OwnedFd,
    before: String,
    said: Arc<Mutex<Vec<u8>>>,
    _place: Place,
}

impl Terminal {
    /// Starts the binary with a terminal of 100 columns and 30 rows, and nothing of colours in its environment.
    pub(crate) fn run(place: Place, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap();
        let line =
            open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&near, size).unwrap();
        // A session of its own, so that this terminal is its terminal and not that of the tests.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_waterclock")).args(arguments);
        for variable in
            ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "CI", "WATERCLOCK_TOKEN"]
        {
            command.env_remove(variable);
        }
        command.env("TERM", "xterm-256color").envs(environment.iter().copied());
        command.current_dir(place.path("."));
        let end = || line.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        let before = settings(&line);
        let child = command.spawn().expect("setsid, of util-linux");
        let mut near = File::from(near);
        let (keys, said) = (near.try_clone().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let heard = Arc::downgrade(&said);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Never waits in a read, so that this end can be closed.
            while let Some(heard) = heard.upgrade() {
                match ioctl_fionread(&near) {
                    Ok(0) => {
                        drop(heard);
                        sleep(PAUSE);
                    }
                    Ok(_) => {
                        let Ok(length @ 1..) = near.read(&mut bytes) else { return };
                        heard.lock().unwrap().extend_from_slice(&bytes[..length]);
                    }
                    Err(_) => return,
                }
            }
        });
        Terminal { child, keys, line, before, said, _place: place }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// All that was written so far, with every escape.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// What is to be seen.
    pub(crate) fn screen(&self) -> Screen {
        Screen::of(&self.raw())
    }

    /// Waits until something is to be seen.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Screen) -> bool) {
        for _ in 0..LONG.as_millis() / PAUSE.as_millis() {
            if holds(&self.screen()) {
                return;
            }
            sleep(PAUSE);
        }
        panic!("waited in vain: {what}:\n{}", self.screen());
    }

    /// Waits for the end: the exit code.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        for _ in 0..LONG.as_millis() / PAUSE.as_millis() {
            if let Some(status) = self.child.try_wait().unwrap() {
                // What it wrote last may still be under way.
                while ioctl_fionread(&self.keys).unwrap() > 0 {
                    sleep(PAUSE);
                }
                sleep(PAUSE * 5);
                return status.code();
            }
            sleep(PAUSE);
        }
        panic!("it does not end:\n{}", self.screen());
    }

    /// Closes the terminal, as its window would be closed, and waits for the end of the process.
    #[track_caller]
    pub(crate) fn hang_up(&mut self) {
        let nothing = || File::options().read(true).write(true).open("/dev/null").unwrap();
        (self.keys, self.line, self.said) = (nothing(), nothing().into(), Arc::default());
        for _ in 0..LONG.as_millis() / PAUSE.as_millis() {
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
            sleep(PAUSE);
        }
        panic!("it does not end");
    }

    /// Whether the terminal is as it was: its settings, its cursor, its usual screen.
    pub(crate) fn is_restored(&self) -> bool {
        let raw = self.raw();
        let last = |one: &str, other: &str| raw.rfind(one) > raw.rfind(other);
        let is_usual = !raw.contains("\u{1b}[?1049h") || last("\u{1b}[?1049l", "\u{1b}[?1049h");
        let has_cursor = !raw.contains("\u{1b}[?25l") || last("\u{1b}[?25h", "\u{1b}[?25l");
        settings(&self.line) == self.before && is_usual && has_cursor
    }

    /// Whether its settings are others than at first.
    pub(crate) fn is_raw(&self) -> bool {
        settings(&self.line) != self.before
    }
}

fn settings(line: &OwnedFd) -> String {
    format!("{:?}", tcgetattr(line).unwrap())
}

impl Drop for Terminal {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

//! Cost of idle connections.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread::sleep,
    time::Duration,
};

use crate::{programs::Programs, report::Report};

const COUNT: usize = 10_000;

/// Kilobytes of memory that a process has.
pub(crate) fn resident(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Connections that have each carried a request and wait for the next.
pub(crate) fn measure(programs: &Programs, report: &mut Report) {
    let router = &programs.router;
    let before = resident(router.pid);
    let mut open = Vec::with_capacity(COUNT);
    let mut answer = [0; 1024];
    for _ in 0..COUNT {
        let mut stream =
            TcpStream::connect(("127.0.0.1", router.http1)).expect("`ulimit -n` is above 10,000");
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        assert!(stream.read(&mut answer).unwrap() > 0);
        open.push(stream);
    }
    // They are put aside after a second or two.
    sleep(Duration::from_secs(5));
    let after = resident(router.pid);
    for stream in &mut open {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        assert!(stream.read(&mut answer).unwrap() > 0, "an idle connection was closed");
    }
    let shown = format!("{:.1} MB (before: {:.1} MB)", after as f64 / 1e3, before as f64 / 1e3);
    report.add("memory with 10,000 idle connections", &shown, "≤ 50 MB", Some(after <= 50_000));
}

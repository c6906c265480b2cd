//! Full disks and read-only disks. The tests make them with `mount`, which needs root. Without root
//! they print that they were left out.

use crate::durable::rig::{Answer, SNAPSHOTS, Server, count};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A small disk for one test.
struct Disk {
    folder: TempDir,
}

impl Disk {
    /// `None` if this user may not mount anything.
    fn of_mib(size: u32) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}m");
        match mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], folder.path()) {
            true => Some(Disk { folder }),
            false => {
                println!("left out: mounting a disk takes root");
                None
            }
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Fills the disk to the last byte.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.folder.path().join("filler")).unwrap();
        for piece in [1 << 20, 4096, 1] {
            let piece = vec![7; piece];
            while file.write_all(&piece).is_ok() {}
        }
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.folder.path()).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    fn remount(&self, how: &str) {
        assert!(mount(
            &["-o", &format!("remount,{how}")],
            self.folder.path()
        ));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let umount = Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .status();
        // If the disk cannot be unmounted, it disturbs nobody.
        drop(umount);
    }
}

fn mount(args: &[&str], place: &Path) -> bool {
    let mounted = Command::new("mount").args(args).arg(place).output();
    mounted.is_ok_and(|output| output.status.success())
}

/// Checks everything that can be read from a disk that cannot be written.
fn assert_reads(server: &Server, run: &str, secret: Option<&str>) {
    server.get("/api/runs").expect(200);
    server.get(&format!("/api/runs/{run}")).expect(200);
    let device = format!("/api/runs/{run}/devices/0");
    for what in [
        "series/0/0",
        "marks",
        "leaks",
        "mountain/file/1/0",
        "mountain/stack/2/1",
    ] {
        server.get(&format!("{device}/{what}")).expect(200);
    }
    server
        .get(&format!("/api/runs/{run}/export?format=pickle"))
        .expect(200);
    if let Some(secret) = secret {
        server.open_share(secret).expect(200);
    }
    server.get("/readyz").expect(200);
}

fn refuses(answer: Answer) {
    assert!(matches!(answer.status, 503 | 507), "{answer:?}");
}

#[test]
fn a_full_disk_stops_neither_reading_nor_a_start() {
    let Some(disk) = Disk::of_mib(48) else { return };
    let data = disk.data();
    let server = Server::start(&data);
    let run = server.upload("0.pickle", SNAPSHOTS[0]);
    let (secret, _) = server.share(&run);
    disk.fill();
    assert_reads(&server, &run, Some(&secret));
    refuses(server.put("1.pickle", SNAPSHOTS[1]));
    // However the server ended, it starts again on the full disk.
    server.kill();
    let server = Server::start(&data);
    disk.fill();
    assert_reads(&server, &run, Some(&secret));
    refuses(server.put("1.pickle", SNAPSHOTS[1]));
    server.stop();
    disk.fill();
    let server = Server::start(&data);
    assert_reads(&server, &run, Some(&secret));
    refuses(server.put("1.pickle", SNAPSHOTS[1]));
    server.stop();
    std::fs::remove_file(disk.folder.path().join("filler")).unwrap();
    let server = Server::start(&data);
    server.upload("1.pickle", SNAPSHOTS[1]);
    assert_eq!(server.runs().len(), 2);
}

#[test]
fn a_disk_that_can_only_be_read_is_served() {
    let Some(disk) = Disk::of_mib(48) else { return };
    let data = disk.data();
    for is_killed in [false, true] {
        let server = Server::start(&data);
        let run = server.upload("0.pickle", SNAPSHOTS[0]);
        match is_killed {
            true => server.kill(),
            false => server.stop(),
        }
        disk.remount("ro");
        let server = Server::start(&data);
        assert_reads(&server, &run, None);
        refuses(server.put("1.pickle", SNAPSHOTS[1]));
        let ready = server.get("/readyz").json();
        assert_eq!(ready["writes"], "refused");
        server.stop();
        disk.remount("rw");
    }
}

#[test]
fn what_must_stay_free_stays_free_when_no_size_was_announced() {
    let Some(disk) = Disk::of_mib(128) else {
        return;
    };
    let data = disk.data();
    let keep = ["--keep-free", "40MiB"];
    let server = Server::with(&data, &keep).unwrap_or_else(|log| panic!("{log}"));
    // Incompressible bytes behind the head of a gzip file: the parser waits for their end.
    let mut chance = crate::durable::rig::Chance(7);
    let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "PUT /api/upload/a HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut piece = b"\x1f\x8b\x08\x04\0\0\0\0\0\0".to_vec();
    for _ in 0..120 {
        piece.resize_with(1 << 20, || chance.below(256) as u8);
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
        if stream.write_all(&chunk).is_err() {
            break;
        }
        assert!(disk.free() >= 40 << 20, "{} are free", disk.free());
        piece.clear();
    }
    drop(stream);
    assert_eq!(count(&data, "SELECT count(*) FROM runs"), 0);
}

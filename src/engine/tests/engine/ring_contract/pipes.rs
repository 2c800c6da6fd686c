//! Pipes, files and devices as standard input and output.

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read, Seek};
use std::os::unix::net::UnixStream;

use corelane_engine::ring::{Operation, Ring, RingOptions, Source};

use super::test_ring::{TIMEOUT, TestRing, pattern, read, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn pipe_is_read_until_writer_closes<R: Ring>(mut bench: TestRing<R>) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let socket = bench.register(Source::Pipe(reader.into()));
    bench.submit(Operation::Receive(socket));
    write(&mut writer, b"one line\n");
    assert_eq!(bench.await_bytes(socket, 9), b"one line\n");
    let bytes = pattern(40_000);
    write(&mut writer, &bytes);
    assert!(bench.await_bytes(socket, bytes.len()) == bytes);
    drop(writer);
    bench.await_end_of_stream(socket).unwrap();
    bench.close(socket);
}

pub(super) fn nonblocking_pipe_is_waited_for<R: Ring>(mut bench: TestRing<R>) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    let socket = bench.register(Source::Pipe(reader.into()));
    bench.submit(Operation::Receive(socket));
    bench.run_until_idle();
    assert!(bench.completions.is_empty(), "{:?}", bench.completions);
    write(&mut writer, b"late");
    assert_eq!(bench.await_bytes(socket, 4), b"late");

    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    write_to_slow_reader(&mut bench, reader, writer);
}

pub(super) fn pipe_write_waits_for_slow_reader<R: Ring>(mut bench: TestRing<R>) {
    let (reader, writer) = std::io::pipe().unwrap();
    write_to_slow_reader(&mut bench, reader, writer);
}

fn write_to_slow_reader<R: Ring>(
    bench: &mut TestRing<R>,
    mut reader: PipeReader,
    writer: PipeWriter,
) {
    let socket = bench.register(Source::Pipe(writer.into()));
    let bytes = pattern(300_000);
    let reader = std::thread::spawn(move || {
        let mut arrived = Vec::new();
        reader.read_to_end(&mut arrived).unwrap();
        arrived
    });
    let mut from = 0;
    // After a short write the rest is sent again.
    while from < bytes.len() {
        bench.submit(Operation::Send { socket, buffer: bytes.clone(), offset: from });
        let taken = bench.await_sent(socket).1.unwrap();
        assert!(taken > 0);
        from += taken;
    }
    bench.close(socket);
    assert!(reader.join().unwrap() == bytes, "all bytes, then end of file");
}

pub(super) fn send_to_pipe_without_reader_fails<R: Ring>(mut bench: TestRing<R>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let socket = bench.register(Source::Pipe(writer.into()));
    drop(reader);
    bench.send(socket, b"anybody?");
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(buffer, b"anybody?");
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    bench.close(socket);
}

pub(super) fn socket_pair_serves_as_standard_streams<R: Ring>(mut bench: TestRing<R>) {
    let (mut outside, inside) = UnixStream::pair().unwrap();
    outside.set_read_timeout(Some(TIMEOUT)).unwrap();
    let input = bench.register(Source::Pipe(inside.try_clone().unwrap().into()));
    let output = bench.register(Source::Pipe(inside.into()));
    bench.submit(Operation::Receive(input));
    write(&mut outside, b"question");
    assert_eq!(bench.await_bytes(input, 8), b"question");
    bench.send(output, b"answer");
    bench.await_sent(output).1.unwrap();
    assert_eq!(read(&mut outside, 6), b"answer");
    drop(outside);
    bench.await_end_of_stream(input).unwrap();
    bench.close(input);
    bench.close(output);
}

pub(super) fn file_is_read_to_end<R: Ring>(mut bench: TestRing<R>) {
    let bytes = pattern(100_000);
    let file = super::file_with(&bytes).unwrap();
    let socket = bench.register(Source::Pipe(file.into()));
    bench.submit(Operation::Receive(socket));
    assert!(bench.await_bytes(socket, bytes.len()) == bytes);
    bench.await_end_of_stream(socket).unwrap();
    bench.close(socket);
}

pub(super) fn file_is_written_in_order<R: Ring>(mut bench: TestRing<R>) {
    let mut file = super::file_with(b"").unwrap();
    let socket = bench.register(Source::Pipe(file.try_clone().unwrap().into()));
    let bytes = pattern(100_000);
    for piece in bytes.chunks(30_000) {
        bench.send(socket, piece);
        assert_eq!(bench.await_sent(socket).1.unwrap(), piece.len());
    }
    bench.close(socket);
    let mut written = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut written).unwrap();
    assert!(written == bytes);
}

pub(super) fn null_device_ends_immediately<R: Ring>(mut bench: TestRing<R>) {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let socket = bench.register(Source::Pipe(null.into()));
    bench.submit(Operation::Receive(socket));
    bench.send(socket, b"gone");
    bench.await_end_of_stream(socket).unwrap();
    assert_eq!(bench.await_sent(socket).1.unwrap(), 4);
    bench.close(socket);
}

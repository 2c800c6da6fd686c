//! What stands in for sockets on standard input and output.

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read, Seek};
use std::os::unix::net::UnixStream;

use corelane::engine::ring::{Operation, Ring, RingOptions, Source};

use super::bench::{Bench, PATIENCE, pattern, read, write};

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn a_pipe_is_read_until_its_writer_is_gone<R: Ring>(mut bench: Bench<R>) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let socket = bench.adopt(Source::Pipe(reader.into()));
    bench.submit(Operation::Receive(socket));
    write(&mut writer, b"one line\n");
    assert_eq!(bench.await_bytes(socket, 9), b"one line\n");
    let bytes = pattern(40_000);
    write(&mut writer, &bytes);
    assert!(bench.await_bytes(socket, bytes.len()) == bytes);
    drop(writer);
    bench.await_ended(socket).unwrap();
    bench.close(socket);
}

pub(super) fn a_pipe_that_was_set_not_to_block_is_waited_for<R: Ring>(mut bench: Bench<R>) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    let socket = bench.adopt(Source::Pipe(reader.into()));
    bench.submit(Operation::Receive(socket));
    bench.settle();
    assert!(bench.told.is_empty(), "{:?}", bench.told);
    write(&mut writer, b"late");
    assert_eq!(bench.await_bytes(socket, 4), b"late");

    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    write_at_the_pace_of_its_reader(&mut bench, reader, writer);
}

pub(super) fn a_pipe_is_written_at_the_pace_of_its_reader<R: Ring>(mut bench: Bench<R>) {
    let (reader, writer) = std::io::pipe().unwrap();
    write_at_the_pace_of_its_reader(&mut bench, reader, writer);
}

fn write_at_the_pace_of_its_reader<R: Ring>(
    bench: &mut Bench<R>,
    mut reader: PipeReader,
    writer: PipeWriter,
) {
    let socket = bench.adopt(Source::Pipe(writer.into()));
    let bytes = pattern(300_000);
    let reader = std::thread::spawn(move || {
        let mut arrived = Vec::new();
        reader.read_to_end(&mut arrived).unwrap();
        arrived
    });
    let mut from = 0;
    // A kernel that takes less than all of it says so; the rest is sent again.
    while from < bytes.len() {
        bench.submit(Operation::Send { socket, buffer: bytes.clone(), from });
        let taken = bench.await_sent(socket).1.unwrap();
        assert!(taken > 0);
        from += taken;
    }
    bench.close(socket);
    assert!(reader.join().unwrap() == bytes, "all of it, then the end");
}

pub(super) fn a_pipe_without_reader_fails_its_send<R: Ring>(mut bench: Bench<R>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let socket = bench.adopt(Source::Pipe(writer.into()));
    drop(reader);
    bench.send(socket, b"anybody?");
    let (buffer, result) = bench.await_sent(socket);
    assert_eq!(buffer, b"anybody?");
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    bench.close(socket);
}

pub(super) fn a_socket_pair_serves_as_standard_input_and_output<R: Ring>(mut bench: Bench<R>) {
    let (mut outside, inside) = UnixStream::pair().unwrap();
    outside.set_read_timeout(Some(PATIENCE)).unwrap();
    let input = bench.adopt(Source::Pipe(inside.try_clone().unwrap().into()));
    let output = bench.adopt(Source::Pipe(inside.into()));
    bench.submit(Operation::Receive(input));
    write(&mut outside, b"question");
    assert_eq!(bench.await_bytes(input, 8), b"question");
    bench.send(output, b"answer");
    bench.await_sent(output).1.unwrap();
    assert_eq!(read(&mut outside, 6), b"answer");
    drop(outside);
    bench.await_ended(input).unwrap();
    bench.close(input);
    bench.close(output);
}

pub(super) fn a_file_is_read_to_its_end<R: Ring>(mut bench: Bench<R>) {
    let bytes = pattern(100_000);
    let file = super::file_with(&bytes).unwrap();
    let socket = bench.adopt(Source::Pipe(file.into()));
    bench.submit(Operation::Receive(socket));
    assert!(bench.await_bytes(socket, bytes.len()) == bytes);
    bench.await_ended(socket).unwrap();
    bench.close(socket);
}

pub(super) fn a_file_is_written<R: Ring>(mut bench: Bench<R>) {
    let mut file = super::file_with(b"").unwrap();
    let socket = bench.adopt(Source::Pipe(file.try_clone().unwrap().into()));
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

pub(super) fn the_null_device_ends_at_once<R: Ring>(mut bench: Bench<R>) {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let socket = bench.adopt(Source::Pipe(null.into()));
    bench.submit(Operation::Receive(socket));
    bench.send(socket, b"gone");
    bench.await_ended(socket).unwrap();
    assert_eq!(bench.await_sent(socket).1.unwrap(), 4);
    bench.close(socket);
}

//! Tokio's servers, by the protocol described in bench/serve.h.
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::runtime::Runtime;

const BLOCK: u64 = 65536;
const ECHO_BUFFER: usize = 4096;
const BACKLOG: u32 = 16384;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Echo,
    Close,
    Source,
    Sink,
}

async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<()> {
    let mut buffer = [0u8; ECHO_BUFFER];
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..n]).await?;
    }
}

async fn source<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<()> {
    let buffer = vec![0u8; BLOCK as usize];
    loop {
        let mut left = stream.read_u64_le().await?;
        while left > 0 {
            let n = left.min(BLOCK);
            stream.write_all(&buffer[..n as usize]).await?;
            left -= n;
        }
    }
}

async fn sink<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<()> {
    let mut buffer = vec![0u8; BLOCK as usize];
    loop {
        let mut left = stream.read_u64_le().await?;
        while left > 0 {
            let n = stream.read(&mut buffer[..left.min(BLOCK) as usize]).await?;
            if n == 0 {
                return Ok(());
            }
            left -= n as u64;
        }
        stream.write_all(&buffer[..1]).await?;
    }
}

// One task for each connection, no larger than what it does.
fn start<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(mode: Mode, stream: S) {
    match mode {
        Mode::Echo => drop(tokio::spawn(echo(stream))),
        Mode::Close => (),
        Mode::Source => drop(tokio::spawn(source(stream))),
        Mode::Sink => drop(tokio::spawn(sink(stream))),
    }
}

async fn accept_tcp(listener: TcpListener, mode: Mode) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        if mode != Mode::Close {
            stream.set_nodelay(true)?;
        }
        start(mode, stream);
    }
}

async fn accept_unix(listener: UnixListener, mode: Mode) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        start(mode, stream);
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

type Accepting = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

fn listen(address: &str, mode: Mode) -> io::Result<Accepting> {
    if let Some(path) = address.strip_prefix("unix://") {
        return Ok(Box::pin(accept_unix(UnixListener::bind(path)?, mode)));
    }
    let at = address.strip_prefix("tcp://").ok_or_else(|| wrong("not an address"))?;
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(at.parse().map_err(|_| wrong("not an address"))?)?;
    Ok(Box::pin(accept_tcp(socket.listen(BACKLOG)?, mode)))
}

/// Returns only when it cannot go on.
pub fn serve(runtime: Runtime, mode: &str, address: &str) -> io::Result<()> {
    let mode = match mode {
        "echo" => Mode::Echo,
        "close" => Mode::Close,
        "source" => Mode::Source,
        "sink" => Mode::Sink,
        _ => return Err(wrong("no such mode")),
    };
    let task = {
        let _inside = runtime.enter();
        runtime.spawn(listen(address, mode)?)
    };
    println!("ready");
    runtime.block_on(task).expect("server")?;
    Ok(())
}

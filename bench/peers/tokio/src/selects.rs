//! Tokio's select! over 2 and 8 channels.
use crate::chans::{Clock, BATCH};
use crate::cpu_ns;
use tokio::select;
use tokio::sync::mpsc::{self, Receiver, Sender};

async fn select_2(rx: &mut [Receiver<u64>; 2]) -> Option<u64> {
    let [a, b] = rx;
    select! {
        item = a.recv() => item,
        item = b.recv() => item,
    }
}

async fn select_8(rx: &mut [Receiver<u64>; 8]) -> Option<u64> {
    let [a, b, c, d, e, f, g, h] = rx;
    select! {
        item = a.recv() => item,
        item = b.recv() => item,
        item = c.recv() => item,
        item = d.recv() => item,
        item = e.recv() => item,
        item = f.recv() => item,
        item = g.recv() => item,
        item = h.recv() => item,
    }
}

fn open_all<const N: usize>(size: usize) -> (Vec<Sender<u64>>, [Receiver<u64>; N]) {
    let mut senders = Vec::new();
    let receivers = std::array::from_fn(|_| {
        let (tx, rx) = mpsc::channel(size);
        senders.push(tx);
        rx
    });
    (senders, receivers)
}

macro_rules! rows {
    ($ready:ident, $round_trip:ident, $select:ident, $channels:literal) => {
        /// Selects while all channels have items.
        pub async fn $ready(c: &mut Clock, count: u64) -> String {
            let (tx, mut rx) = open_all::<$channels>(BATCH as usize);
            c.begin();
            let mut done = 0;
            while done < count {
                for i in 0..BATCH {
                    tx[i as usize % $channels].send(i).await.unwrap();
                }
                let t = cpu_ns();
                for _ in 0..BATCH {
                    $select(&mut rx).await.unwrap();
                }
                c.pieces += cpu_ns() - t;
                done += BATCH;
            }
            c.end(done)
        }

        pub async fn $round_trip(c: &mut Clock, count: u64) -> String {
            let (tx, mut rx) = open_all::<$channels>(1);
            let (back, mut home) = mpsc::channel::<u64>(1);
            let answer = tokio::spawn(async move {
                while let Some(item) = $select(&mut rx).await {
                    back.send(item).await.unwrap();
                }
            });
            c.begin();
            for i in 0..count {
                tx[i as usize % $channels].send(i).await.unwrap();
                home.recv().await.unwrap();
            }
            let line = c.end(count);
            drop(tx);
            answer.await.unwrap();
            line
        }
    };
}

rows!(ready_2, round_trip_2, select_2, 2);
rows!(ready_8, round_trip_8, select_8, 8);

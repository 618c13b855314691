// chans.go - Go's channels, and what Go programs do where weft has a kind of channel that Go has not.
//
// Unbounded: a channel with a buffer as large as what is in flight. Oneshot: a channel of one, made for
// it. Broadcast: a channel for each receiver. Watch: a value under a mutex, and a channel that is closed
// to say that there is another one.
package main

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	batch     = 1000
	side      = 4
	receivers = 4
	burst     = 64
	mailBurst = 16
	flowSize  = 64
)

// clock measures one workload: CPU time on one CPU, the time that passes on two.
type clock struct {
	two    bool
	wall   time.Time
	cpu    time.Duration
	pieces time.Duration
	before runtime.MemStats
	line   string
}

func (c *clock) begin() {
	c.pieces = 0
	runtime.ReadMemStats(&c.before)
	c.cpu, c.wall = cpuTime(), time.Now()
}

func (c *clock) end(operations int) {
	span, cpu := time.Since(c.wall), cpuTime()-c.cpu
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	bytes := perOp("bytes_per_op", float64(after.TotalAlloc-c.before.TotalAlloc), operations)
	if c.two {
		c.line = fmt.Sprintf("%s %s %s", spanPerOp("ns_per_op", span, operations),
			spanPerOp("cpu_ns_per_op", cpu, operations), bytes)
		return
	}
	if c.pieces > 0 {
		cpu = c.pieces
	}
	c.line = spanPerOp("ns_per_op", cpu, operations) + " " + bytes
}

var workloads = map[string]func(c *clock, count int){
	"send":           func(c *clock, n int) { batches(c, n, true) },
	"recv":           func(c *clock, n int) { batches(c, n, false) },
	"round-trip":     roundTrip,
	"stream":         func(c *clock, n int) { flow(c, n, flowSize, 1) },
	"4x4":            func(c *clock, n int) { flow(c, n, flowSize, side) },
	"rendezvous":     func(c *clock, n int) { flow(c, n, 0, 1) },
	"unbounded-send": func(c *clock, n int) { batches(c, n, true) },
	"unbounded-recv": func(c *clock, n int) { batches(c, n, false) },
	"unbounded-4x1":  unbounded,
	"oneshot":        oneshot,
	"call":           call,
	"broadcast-x4":   broadcast,
	"watch-set":      func(c *clock, n int) { watchAlone(c, n, true) },
	"watch-get":      func(c *clock, n int) { watchAlone(c, n, false) },
	"watch-x4":       watchFollowed,
}

func chanBench(name string) (bench, bool) {
	workload, found := workloads[strings.TrimSuffix(strings.TrimPrefix(name, "chan/"), "/2")]
	return func(count int) (string, error) {
		c := &clock{two: strings.HasSuffix(name, "/2")}
		workload(c, count/20+100)
		workload(c, count)
		return c.line, nil
	}, found && strings.HasPrefix(name, "chan/")
}

func batches(c *clock, count int, sends bool) {
	ch := make(chan uint64, batch)
	c.begin()
	done := 0
	for ; done < count; done += batch {
		t := cpuTime()
		for i := uint64(0); i < batch; i++ {
			ch <- i
		}
		if sends {
			c.pieces += cpuTime() - t
		}
		t = cpuTime()
		for i := 0; i < batch; i++ {
			<-ch
		}
		if !sends {
			c.pieces += cpuTime() - t
		}
	}
	c.end(done)
}

func roundTrip(c *clock, count int) {
	there, back := make(chan uint64, 1), make(chan uint64, 1)
	go func() {
		for item := range there {
			back <- item
		}
		close(back)
	}()
	c.begin()
	for i := 0; i < count; i++ {
		there <- uint64(i)
		<-back
	}
	c.end(count)
	close(there)
	<-back
}

func flow(c *clock, count, size, side int) {
	ch := make(chan uint64, size)
	per := count / side
	var sending, all sync.WaitGroup
	sending.Add(side)
	all.Add(side)
	c.begin()
	for i := 0; i < side; i++ {
		go func() {
			for range ch {
			}
			all.Done()
		}()
		go func() {
			for i := 0; i < per; i++ {
				ch <- uint64(i)
			}
			sending.Done()
		}()
	}
	sending.Wait()
	close(ch)
	all.Wait()
	c.end(per * side)
}

func unbounded(c *clock, count int) {
	ch := make(chan uint64, side*mailBurst)
	per := count / side
	var sending sync.WaitGroup
	sending.Add(side)
	done := make(chan struct{})
	c.begin()
	go func() {
		for range ch {
		}
		close(done)
	}()
	for i := 0; i < side; i++ {
		go func() {
			for i := 0; i < per; i++ {
				ch <- uint64(i)
				if i%mailBurst == mailBurst-1 {
					runtime.Gosched()
				}
			}
			sending.Done()
		}()
	}
	sending.Wait()
	close(ch)
	<-done
	c.end(per * side)
}

func oneshot(c *clock, count int) {
	var sum uint64
	c.begin()
	for i := 0; i < count; i++ {
		ch := make(chan uint64, 1)
		ch <- uint64(i)
		sum += <-ch
	}
	c.end(count)
	atomic.AddUint64(&total, sum)
}

var total uint64 // so that nothing is optimised away

type question struct {
	number uint64
	answer chan uint64
}

func call(c *clock, count int) {
	questions := make(chan question, 1)
	done := make(chan struct{})
	go func() {
		for q := range questions {
			q.answer <- q.number
		}
		close(done)
	}()
	c.begin()
	for i := 0; i < count; i++ {
		q := question{uint64(i), make(chan uint64, 1)}
		questions <- q
		<-q.answer
	}
	c.end(count)
	close(questions)
	<-done
}

func broadcast(c *clock, count int) {
	var listeners [receivers]chan uint64
	acks := make(chan uint64, receivers)
	var all sync.WaitGroup
	all.Add(receivers)
	for i := range listeners {
		mine := make(chan uint64, burst)
		listeners[i] = mine
		go func() {
			n := uint64(0)
			for range mine {
				if n++; n%burst == 0 {
					acks <- n
				}
			}
			all.Done()
		}()
	}
	bursts := count/receivers/burst + 1
	c.begin()
	for b := 0; b < bursts; b++ {
		for i := 0; i < burst; i++ {
			for _, listener := range listeners {
				listener <- uint64(i)
			}
		}
		for i := 0; i < receivers; i++ {
			<-acks
		}
	}
	c.end(bursts * burst * receivers)
	for _, listener := range listeners {
		close(listener)
	}
	all.Wait()
}

type watch struct {
	sync.RWMutex
	value      uint64
	generation uint64
	changed    chan struct{} // closed when there is another value; nil: nobody waits
	closed     bool
}

func (w *watch) set(value uint64, closed bool) {
	w.Lock()
	w.value, w.closed = value, closed
	w.generation++
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	w.Unlock()
}

func (w *watch) get() (uint64, uint64) {
	w.RLock()
	defer w.RUnlock()
	return w.value, w.generation
}

func (w *watch) wait(seen uint64) (uint64, bool) {
	for {
		w.Lock()
		if w.generation != seen {
			defer w.Unlock()
			return w.generation, !w.closed
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.Unlock()
		<-changed
	}
}

func watchAlone(c *clock, count int, sets bool) {
	w := &watch{}
	var sum uint64
	c.begin()
	for i := 0; i < count; i++ {
		if sets {
			w.set(uint64(i), false)
		} else {
			value, _ := w.get()
			sum += value
		}
	}
	c.end(count)
	atomic.AddUint64(&total, sum)
}

func watchFollowed(c *clock, count int) {
	w := &watch{}
	acks := make(chan uint64, receivers)
	var all sync.WaitGroup
	all.Add(receivers)
	for i := 0; i < receivers; i++ {
		go func() {
			seen, open := uint64(0), true
			for {
				if seen, open = w.wait(seen); !open {
					break
				}
				value, _ := w.get()
				acks <- value
			}
			all.Done()
		}()
	}
	c.begin()
	for i := 0; i < count; i++ {
		w.set(uint64(i), false)
		for i := 0; i < receivers; i++ {
			<-acks
		}
	}
	c.end(count)
	w.set(0, true)
	all.Wait()
}

// syncs.go - Go's means of synchronisation, and what Go programs do where weft has one that Go has not.
//
// Semaphore: a channel with a buffer. Cell: a sync.Once and a value. Barrier: a mutex and a condition
// variable. Notify: a channel of one.
package main

import (
	"runtime"
	"strings"
	"sync"
)

const readsPerWrite = 10

var shared uint64

var syncWorkloads = map[string]func(c *clock, count int){
	"mutex":        mutexAlone,
	"mutex-x4":     mutexShared,
	"rwlock-read":  rwlockRead,
	"rwlock-write": rwlockWrite,
	"rwlock-x4":    rwlockShared,
	"semaphore":    semaphoreAlone,
	"semaphore-x4": semaphoreShared,
	"once-get":     onceGet,
	"once-get-x4":  onceGetShared,
	"once-set":     onceSet,
	"barrier-x4":   barrierShared,
	"notify":       notifyBack,
}

func syncBench(name string) (bench, bool) {
	workload, found := syncWorkloads[strings.TrimSuffix(strings.TrimPrefix(name, "sync/"), "/2")]
	return func(count int) (string, error) {
		c := &clock{two: strings.HasSuffix(name, "/2")}
		workload(c, count/20+100)
		workload(c, count)
		return c.line, nil
	}, found && strings.HasPrefix(name, "sync/")
}

func mutexAlone(c *clock, count int) {
	var m sync.Mutex
	c.begin()
	for i := 0; i < count; i++ {
		m.Lock()
		shared++
		m.Unlock()
	}
	c.end(count)
}

func rwlockRead(c *clock, count int) {
	var m sync.RWMutex
	c.begin()
	for i := 0; i < count; i++ {
		m.RLock()
		m.RUnlock()
	}
	c.end(count)
}

func rwlockWrite(c *clock, count int) {
	var m sync.RWMutex
	c.begin()
	for i := 0; i < count; i++ {
		m.Lock()
		shared++
		m.Unlock()
	}
	c.end(count)
}

func semaphoreAlone(c *clock, count int) {
	permits := make(chan struct{}, 2)
	c.begin()
	for i := 0; i < count; i++ {
		permits <- struct{}{}
		<-permits
	}
	c.end(count)
}

type cell struct {
	once  sync.Once
	value *uint64
}

func (c *cell) get() *uint64 {
	c.once.Do(func() { c.value = &shared })
	return c.value
}

func onceGet(c *clock, count int) {
	var made cell
	sum := uint64(0)
	c.begin()
	for i := 0; i < count; i++ {
		sum += *made.get()
	}
	c.end(count)
	if sum != uint64(count)*shared {
		panic("wrong value")
	}
}

func onceSet(c *clock, count int) {
	cells := make([]cell, batch)
	c.begin()
	done := 0
	for ; done < count; done += batch {
		t := cpuTime()
		for i := range cells {
			cells[i] = cell{}
			cells[i].get()
		}
		c.pieces += cpuTime() - t
	}
	c.end(done)
}

// four runs a task four times. On one CPU pass gives way, on two it does nothing.
func four(c *clock, count int, task func(per int, pass func())) {
	pass := runtime.Gosched
	if c.two {
		pass = func() {}
	}
	var all sync.WaitGroup
	all.Add(side)
	c.begin()
	for i := 0; i < side; i++ {
		go func() {
			task(count/side, pass)
			all.Done()
		}()
	}
	all.Wait()
	c.end(count / side * side)
}

func mutexShared(c *clock, count int) {
	var m sync.Mutex
	four(c, count, func(per int, pass func()) {
		for i := 0; i < per; i++ {
			m.Lock()
			shared++
			pass()
			m.Unlock()
		}
	})
}

func rwlockShared(c *clock, count int) {
	var m sync.RWMutex
	four(c, count, func(per int, pass func()) {
		for i := 0; i < per; i++ {
			if i%readsPerWrite == 0 {
				m.Lock()
				shared++
				pass()
				m.Unlock()
			} else {
				m.RLock()
				pass()
				m.RUnlock()
			}
		}
	})
}

func semaphoreShared(c *clock, count int) {
	permits := make(chan struct{}, 2)
	four(c, count, func(per int, pass func()) {
		for i := 0; i < per; i++ {
			permits <- struct{}{}
			pass()
			<-permits
		}
	})
}

func onceGetShared(c *clock, count int) {
	var made cell
	four(c, count, func(per int, _ func()) {
		sum := uint64(0)
		for i := 0; i < per; i++ {
			sum += *made.get()
		}
		if sum != uint64(per)*shared {
			panic("wrong value")
		}
	})
}

func barrierShared(c *clock, count int) {
	var m sync.Mutex
	met := sync.NewCond(&m)
	arrived, generation := 0, 0
	four(c, count, func(per int, _ func()) {
		for i := 0; i < per; i++ {
			m.Lock()
			mine := generation
			arrived++
			if arrived == side {
				arrived = 0
				generation++
				met.Broadcast()
			}
			for mine == generation {
				met.Wait()
			}
			m.Unlock()
		}
	})
}

func notifyBack(c *clock, count int) {
	there, back := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		for range there {
			back <- struct{}{}
		}
	}()
	c.begin()
	for i := 0; i < count; i++ {
		there <- struct{}{}
		<-back
	}
	c.end(count)
	close(there)
}

// selects.go - Go's select over 2 and 8 channels.
package main

func init() {
	workloads["select-2"] = func(c *clock, n int) { selectRoundTrip(c, n, 2) }
	workloads["select-8"] = func(c *clock, n int) { selectRoundTrip(c, n, 8) }
	workloads["select-ready-2"] = func(c *clock, n int) { selectReady(c, n, 2) }
	workloads["select-ready-8"] = func(c *clock, n int) { selectReady(c, n, 8) }
}

func selectOf2(ch []chan uint64) (item uint64, ok bool) {
	select {
	case item, ok = <-ch[0]:
	case item, ok = <-ch[1]:
	}
	return
}

func selectOf8(ch []chan uint64) (item uint64, ok bool) {
	select {
	case item, ok = <-ch[0]:
	case item, ok = <-ch[1]:
	case item, ok = <-ch[2]:
	case item, ok = <-ch[3]:
	case item, ok = <-ch[4]:
	case item, ok = <-ch[5]:
	case item, ok = <-ch[6]:
	case item, ok = <-ch[7]:
	}
	return
}

func openAll(count, size int) []chan uint64 {
	all := make([]chan uint64, count)
	for i := range all {
		all[i] = make(chan uint64, size)
	}
	return all
}

// selectReady measures selects while all channels have items.
func selectReady(c *clock, count, channels int) {
	all := openAll(channels, batch)
	c.begin()
	done := 0
	for ; done < count; done += batch {
		for i := 0; i < batch; i++ {
			all[i%channels] <- uint64(i)
		}
		t := cpuTime()
		if channels == 2 {
			for i := 0; i < batch; i++ {
				selectOf2(all)
			}
		} else {
			for i := 0; i < batch; i++ {
				selectOf8(all)
			}
		}
		c.pieces += cpuTime() - t
	}
	c.end(done)
}

func selectRoundTrip(c *clock, count, channels int) {
	all, back := openAll(channels, 1), make(chan uint64, 1)
	go func() {
		pick := selectOf2
		if channels == 8 {
			pick = selectOf8
		}
		for {
			item, ok := pick(all)
			if !ok {
				close(back)
				return
			}
			back <- item
		}
	}()
	c.begin()
	for i := 0; i < count; i++ {
		all[i%channels] <- uint64(i)
		<-back
	}
	c.end(count)
	close(all[0])
	<-back
}

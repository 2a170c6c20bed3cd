import queue
import random
import threading
import time

SENTINEL = object()


def producer(name, q, count):
    for i in range(count):
        item = (name, i)
        time.sleep(random.uniform(0.01, 0.1))
        q.put(item)
        print(f"{name} produced {i}")


def consumer(name, q, results, lock):
    while True:
        item = q.get()
        try:
            if item is SENTINEL:
                return
            time.sleep(random.uniform(0.02, 0.08))
            with lock:
                results.append(item)
            print(f"    {name} consumed {item}")
        finally:
            q.task_done()


def main():
    q = queue.Queue(maxsize=10)
    results, lock = [], threading.Lock()
    producers = [threading.Thread(target=producer, args=(f"P{i}", q, 10)) for i in range(2)]
    consumers = [threading.Thread(target=consumer, args=(f"C{i}", q, results, lock)) for i in range(3)]
    for t in producers + consumers:
        t.start()
    for t in producers:
        t.join()
    for _ in consumers:
        q.put(SENTINEL)
    for t in consumers:
        t.join()
    print(f"{len(results)} items processed")


if __name__ == "__main__":
    main()

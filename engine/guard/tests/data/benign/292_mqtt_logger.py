import json
import os
import signal
import sqlite3
import sys
import time

import paho.mqtt.client as mqtt

DB = sqlite3.connect("sensors.db", check_same_thread=False)
DB.execute("CREATE TABLE IF NOT EXISTS readings (ts REAL, sensor TEXT, field TEXT, value REAL)")
DB.execute("CREATE INDEX IF NOT EXISTS ix_readings ON readings (sensor, ts)")


def on_connect(client, userdata, flags, rc, *extra):
    print("connected, code", rc)
    client.subscribe("home/+/sensor", qos=1)


def on_message(client, userdata, msg):
    sensor = msg.topic.split("/")[1]
    try:
        data = json.loads(msg.payload)
    except ValueError:
        print("bad payload on", msg.topic)
        return
    now = time.time()
    rows = [(now, sensor, k, float(v)) for k, v in data.items() if isinstance(v, (int, float))]
    with DB:
        DB.executemany("INSERT INTO readings VALUES (?, ?, ?, ?)", rows)
        DB.execute("DELETE FROM readings WHERE ts < ?", (now - 90 * 86400,))


def main():
    client = mqtt.Client(client_id="sensor-logger")
    if os.environ.get("MQTT_USER"):
        client.username_pw_set(os.environ["MQTT_USER"], os.environ.get("MQTT_PASSWORD"))
    client.on_connect = on_connect
    client.on_message = on_message
    client.reconnect_delay_set(1, 60)
    client.connect(os.environ.get("MQTT_HOST", "localhost"), 1883, keepalive=60)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    client.loop_forever(retry_first_connection=True)


if __name__ == "__main__":
    main()

"""A small database with the tables that an Nsight Systems export has, for one process and two threads."""
import sqlite3

PROCESS = 0x1000000 * 4242
MAIN, COMM_THREAD = PROCESS + 11, PROCESS + 12
DOMAIN_ID = 3

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
  color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER REFERENCES StringIds(id), domainId INTEGER,
  uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
  jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL REFERENCES StringIds(id), returnValue INTEGER NOT NULL,
  callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, gridX INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
"""
LANES = ("compute", "tp", "cp", "dp", "pp", "ep")


class Sample:
    def __init__(self, path):
        self.database = sqlite3.connect(path)
        self.database.executescript(SCHEMA)
        self.strings = {}
        self.correlation = 0
        self.event(0, None, 75, text="shardbench", thread=MAIN)
        self.event(0, None, 75, text="NCCL", thread=MAIN, domain=4)
        for index, lane in enumerate(LANES):
            self.event(0, None, 33, text=lane, category=index + 1, thread=MAIN)

    def string(self, value):
        if value not in self.strings:
            self.strings[value] = len(self.strings) + 1
            self.database.execute("INSERT INTO StringIds VALUES (?, ?)", (self.strings[value], value))
        return self.strings[value]

    def event(self, start, end, kind, text=None, category=None, thread=MAIN, domain=DOMAIN_ID, payload=None, text_id=None):
        self.database.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, category, text, globalTid, textId, domainId, doubleValue) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (start, end, kind, category, text, thread, text_id, domain, payload))

    def range(self, name, lane, start, end, thread=MAIN, payload=None, domain=DOMAIN_ID, registered=False):
        category = LANES.index(lane) + 1 if lane else None
        self.event(start, end, 59, None if registered else name, category, thread, domain, payload,
                   self.string(name) if registered else None)

    def kernel(self, name, launched, start, end, thread=MAIN):
        self.correlation += 1
        self.database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)",
                              (launched, launched + 1, thread, self.correlation, self.string("cudaLaunchKernel")))
        self.database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, NULL, 7, ?, ?, ?, ?, NULL, 1, 1)",
            (start, end, self.correlation, PROCESS, self.string(name), self.string(name)))

    def close(self):
        self.database.commit()
        self.database.close()

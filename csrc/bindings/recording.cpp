// The part of topoflow._C that records communications of PyTorch while a job runs: topoflow.capture.record.
//
// A collective of one element takes 50 us, as much as the recorder took in Python. What it does for each is therefore
// here, and everything else in Python.
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace py = pybind11;

namespace topoflow {
namespace {

py::object checked(PyObject* owned) {
  if (owned == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(owned);
}

// A name of Python, made once: attributes and keys are then found by its address.
class Name {
 public:
  explicit Name(const char* text) : name_(PyUnicode_InternFromString(text)) {}
  PyObject* get() const { return name_; }
  py::object of(py::handle object) const { return checked(PyObject_GetAttr(object.ptr(), name_)); }
  bool is_true_of(py::handle object) const { return of(object).ptr() == Py_True; }
  void set(py::handle object, py::handle value) const {
    if (PyObject_SetAttr(object.ptr(), name_, value.ptr()) != 0) throw py::error_already_set();
  }
  template <class... Arguments>
  py::object call(py::handle object, const Arguments&... arguments) const {
    PyObject* all[] = {object.ptr(), arguments.ptr()...};
    return checked(PyObject_VectorcallMethod(name_, all, sizeof...(arguments) + 1, nullptr));
  }

 private:
  PyObject* name_;
};

struct Names {
  Name kind{"kind"}, name{"name"}, start{"start"}, end{"end"}, busy{"busy"}, after{"after"}, work{"work"};
  Name group{"group"}, issue{"issue"}, event{"event"}, compute{"compute"}, later{"later"};
  Name cut{"cut"}, mark{"mark"}, counting{"counting"}, row{"row"}, written{"written"}, position{"position"};
  Name active{"_active"}, newest{"_newest"}, failed{"_failed"}, append{"append"};
  Name dtype{"dtype"}, nbytes{"nbytes"}, is_cpu{"is_cpu"}, is_sparse{"is_sparse"}, device{"device"};
  Name get_backend{"_get_backend"}, is_async{"asyncOp"}, root{"rootRank"}, sent{"_sent_by_method"};
};

const Names& names() {
  static const Names* all = new Names;  // never freed: Python may have ended before
  return *all;
}

template <class... Arguments>
py::object call(py::handle function, const Arguments&... arguments) {
  PyObject* all[] = {nullptr, arguments.ptr()...};
  return checked(
      PyObject_Vectorcall(function.ptr(), all + 1, sizeof...(arguments) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

void put(const py::dict& row, const Name& key, py::handle value) {
  if (PyDict_SetItem(row.ptr(), key.get(), value.ptr()) != 0) throw py::error_already_set();
}

// The events of a rank's main thread, in order; topoflow.capture.record.recording explains them.
class Timeline {
 public:
  Timeline(py::object queue, py::object write, py::object clock, py::object busy, py::object work, py::object event)
      : work(std::move(work)),
        queue_(std::move(queue)),
        write_(std::move(write)),
        clock_(std::move(clock)),
        busy_(std::move(busy)),
        event_(std::move(event)) {
    resume();
  }

  int64_t now() const { return call(clock_).cast<int64_t>(); }

  void pause() {
    stop();
    close();
  }

  // End the running compute span now; `close` writes it, which can wait until a communication is under way.
  int64_t stop() {
    const int64_t busy = call(busy_).cast<int64_t>(), end = now();
    if (!is_paused) {
      is_paused = has_span_ = true;
      end_ = end;
      spent_ = busy - busy_before_;
    }
    return end;
  }

  void close() {
    if (!has_span_) return;
    has_span_ = false;
    const Names& key = names();
    const py::object done = key.cut.call(work, phase);
    const bool any = PyObject_IsTrue(done.ptr()) == 1;
    if (spent_ <= 0 && !any) return;
    if (!any && !queue_.is_none()) {
      if (in_flight_) flush();
      text_ += "{\"kind\":\"compute\",\"name\":\"";
      text_ += PyUnicode_AsUTF8(phase.ptr());
      add_number("\",\"start\":", start_);
      add_number(",\"end\":", end_);
      add_number(",\"busy\":", spent_);
      add_list(",\"after\":[", dependencies());
      text_ += "]}\n";
      waited = py::list();
      last_compute = py::int_(events_++);
      return;
    }
    const py::dict row;
    put(row, key.kind, key.compute.get());
    put(row, key.name, phase);
    put(row, key.start, py::int_(start_));
    put(row, key.end, py::int_(end_));
    put(row, key.busy, py::int_(spent_ > 0 ? spent_ : 0));
    put(row, key.after, dependencies());
    if (any) put(row, key.work, done);
    waited = py::list();
    last_compute = py::int_(events_++);
    write(row);
  }

  void resume() {
    close();
    start_ = now();
    busy_before_ = call(busy_).cast<int64_t>();
    is_paused = false;
  }

  void leave_out(int64_t spent) { busy_before_ += spent; }

  // Close the span; return the events that the next one depends on: the last compute span, and what was waited for
  // since.
  py::list follows() {
    close();
    return dependencies();
  }

  // Add a communication that follows the events `after`, and the previous communication of its group.
  py::object add(const py::dict& row, int64_t issued, py::list after) {
    const Names& key = names();
    const py::object values = checked(PyList_AsTuple(checked(PyDict_Values(row.ptr())).ptr()));
    const py::int_ position = place(values, PyDict_GetItemWithError(row.ptr(), key.group.get()), after);
    py::object event = make(row, issued, after, position);
    write(event);
    return event;
  }

  // Like `add`, for a communication that is waited for at once: while nothing else is written, its row is not made
  // before its end.
  void begin_wait(const py::object& described, int64_t issued) {
    if (in_flight_) flush();  // nobody has waited for it
    flight_.described = described;
    flight_.issued = issued;
    flight_.after = follows();
    flight_.position =
        place(PyTuple_GET_ITEM(described.ptr(), kMark), PyTuple_GET_ITEM(described.ptr(), kGroup), flight_.after);
    in_flight_ = true;
  }

  // Note that the main thread has waited for the newest communication, and computes again.
  void end_wait() {
    if (!in_flight_) {
      done(newest_event_);
      waited.append(names().position.of(newest_event_));
    } else {
      const int64_t end = now();
      text_ += PyBytes_AS_STRING(PyTuple_GET_ITEM(flight_.described.ptr(), kText));
      add_number(",\"issue\":", flight_.issued);
      add_list(",\"after\":[", flight_.after);
      add_number("],\"end\":", end);
      text_ += "}\n";
      in_flight_ = false;
      waited.append(flight_.position);
      if (text_.size() > kChunk) flush();
    }
    resume();
  }

  // Write what is not yet written. Any thread may call this: between its first append and its end no other one runs.
  void flush() {
    py::object event;
    const py::object position = flight_.position;
    if (in_flight_) {
      const py::dict row = checked(PyDict_Copy(PyTuple_GET_ITEM(flight_.described.ptr(), kRow)));
      event = make(row, flight_.issued, flight_.after, flight_.position);  // another thread may run here
    }
    if (!text_.empty()) {
      const py::bytes chunk(text_);
      text_.clear();
      names().append.call(queue_, chunk);
    }
    if (event && in_flight_ && flight_.position.is(position)) {
      in_flight_ = false;
      newest_event_ = event;
      names().append.call(queue_, event);
    }
  }

  py::object newest_event() {
    flush();
    return newest_event_;
  }
  void set_newest_event(py::object event) { newest_event_ = std::move(event); }

  void write(const py::object& row) {
    close();
    flush();
    call(write_, row);
  }

  void done(const py::object& event) {
    const Names& key = names();
    const py::dict row = key.row.of(event);
    if (PyDict_Contains(row.ptr(), key.end.get()) == 1) return;
    const py::object end = call(clock_);
    put(row, key.end, end);
    if (!key.written.is_true_of(event)) return;
    const py::dict later;
    put(later, key.kind, key.later.get());
    put(later, key.event, key.position.of(event));
    put(later, key.end, end);
    write(later);
  }

  bool is_paused = true;
  py::object phase = py::str("forward");
  py::list waited;                       // positions that the next compute span follows
  py::object last_compute = py::none();  // its position
  py::object work;

 private:
  py::list dependencies() const {
    py::list all;
    if (!last_compute.is_none()) all.append(last_compute);
    for (const py::handle position : waited) all.append(position);
    return all;
  }

  static constexpr size_t kChunk = 1024;                            // B of text that are written at once
  static constexpr int kRow = 0, kGroup = 2, kMark = 3, kText = 4;  // of what is described

  // Return the position of a new communication, and add the previous one of its group to what it follows.
  py::int_ place(py::handle mark, py::handle group, py::list& after) {
    names().mark.call(work, mark);
    if (!group) throw py::key_error("group");
    if (PyObject* before = PyDict_GetItem(last_of_group_.ptr(), group.ptr())) after.append(py::handle(before));
    py::int_ position(events_++);
    if (PyDict_SetItem(last_of_group_.ptr(), group.ptr(), position.ptr()) != 0) throw py::error_already_set();
    return position;
  }

  py::object make(const py::dict& row, int64_t issued, const py::list& after, const py::int_& position) const {
    put(row, names().issue, py::int_(issued));
    put(row, names().after, after);
    return call(event_, position, row);
  }

  void add_number(const char* field, int64_t number) {
    text_ += field;
    text_ += std::to_string(number);
  }

  void add_list(const char* field, const py::list& positions) {
    text_ += field;
    for (const py::handle position : positions) {
      if (text_.back() != '[') text_ += ',';
      text_ += std::to_string(PyLong_AsLongLong(position.ptr()));
    }
  }

  struct Flight {
    py::object described;  // row, whether on a device, group, mark, and row as text without its end
    int64_t issued;
    py::list after;
    py::int_ position;
  };

  py::object queue_, write_, clock_, busy_, event_;
  int64_t events_ = 0, start_ = 0, busy_before_ = 0;
  int64_t end_ = 0, spent_ = 0;  // of a span that is not yet written
  bool has_span_ = false;
  py::dict last_of_group_;  // name -> position
  std::string text_;        // rows that are not yet in the queue, and before those of the communication in flight
  Flight flight_;
  bool in_flight_ = false;
  py::object newest_event_ = py::none();
};

// Calls of Python that the recorder sees without an operator: those of methods of ProcessGroup with plain tensors on
// the CPU, whose caller waits at once. `recorder` is the Recorder; it takes all other calls.
class DirectCalls {
 public:
  DirectCalls(py::object recorder, py::object recording, py::object queue, py::ssize_t most_waiting, py::object threads,
              py::object stack_length, py::object is_profiled, py::object work_type, py::tuple plain)
      : recorder(std::move(recorder)),
        queue(std::move(queue)),
        most_waiting(most_waiting),
        work_type(std::move(work_type)),
        recording_(std::move(recording)),
        threads_(std::move(threads)),
        stack_length_(std::move(stack_length)),
        is_profiled_(std::move(is_profiled)),
        plain_(std::move(plain)),
        timeline(*recording_.cast<Timeline*>()),
        main_(PyThread_get_thread_ident()),
        main_id_(py::int_(main_)) {}

  bool on_main() const { return PyThread_get_thread_ident() == main_; }
  bool is_active() const { return names().active.is_true_of(recorder); }

  // Returns whether a call is that of the main thread, in no kernel of the recorder's, no mode but its own, and no
  // profiler.
  bool apply() const {
    if (!is_active() || !on_main() || PySet_Contains(threads_.ptr(), main_id_.ptr()) != 0) return false;
    const bool counts = names().counting.is_true_of(timeline.work);
    return PyLong_AsLong(call(stack_length_).ptr()) == counts && call(is_profiled_).ptr() == Py_False;
  }

  bool is_plain(py::handle tensor) const {
    for (const py::handle type : plain_)
      if (type.ptr() == reinterpret_cast<PyObject*>(Py_TYPE(tensor.ptr())))
        return !names().is_sparse.is_true_of(tensor);
    return false;
  }

  // Run a part of the recorder, whose error ends the recording; return whether there was none.
  template <class Part>
  bool guard(const Part& part) const {
    try {
      part();
      return true;
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;
      names().failed.call(recorder, error.value());
      return false;
    }
  }

  py::object recorder, queue;
  py::ssize_t most_waiting;
  py::object work_type;
  bool is_sending = false;

 private:
  py::object recording_, threads_, stack_length_, is_profiled_;
  py::tuple plain_;

 public:
  Timeline& timeline;

 private:
  unsigned long main_;
  py::int_ main_id_;
};

// The arguments of a call from Python: those by name follow those by position.
struct Arguments {
  PyObject* const* all;
  size_t number;  // of those by position
  PyObject* names;

  PyObject* operator[](size_t at) const { return all[at]; }
  py::object pass(const py::object& function) const {
    return checked(PyObject_Vectorcall(function.ptr(), all, number, names));
  }
};

// The backend's method that a call of ProcessGroup ends in, and what it sends.
struct Call {
  py::object backend, is_async, shape;
};

// Stands for a method of ProcessGroup, and leaves to it what is no direct call.
class DirectMethod {
 public:
  DirectMethod(std::shared_ptr<DirectCalls> calls, py::object method, const std::string& of_backend, bool has_list,
               bool has_root, py::dict rows, py::object describe)
      : calls_(std::move(calls)),
        method_(std::move(method)),
        of_backend_(of_backend.c_str()),
        has_list_(has_list),
        has_root_(has_root),
        rows_(std::move(rows)),
        describe_(std::move(describe)) {}

  py::object operator()(const Arguments& args) const {
    Timeline& timeline = calls_->timeline;
    int64_t issued = 0;
    Call call;
    const bool direct = calls_->apply() && look(args, call) && calls_->guard([&] { issued = timeline.stop(); });
    if (!direct) return args.pass(method_);
    PyObject* all[kMaxArguments] = {call.backend.ptr()};
    std::copy(args.all + 1, args.all + args.number, all + 1);
    calls_->is_sending = true;
    PyObject* result = PyObject_VectorcallMethod(of_backend_.get(), all, args.number, nullptr);
    calls_->is_sending = false;
    if (result == nullptr) {
      const py::error_already_set error;
      calls_->guard([&] { timeline.resume(); });
      throw error;
    }
    py::object returned = py::reinterpret_steal<py::object>(result);
    calls_->guard([&] { record(args, call, returned, issued); });
    return returned;
  }

 private:
  static constexpr size_t kMaxArguments = 4;  // a group, two tensors, options

  bool look(const Arguments& args, Call& call) const {
    const Names& key = names();
    const size_t tensors = has_list_ ? 1 : 2;
    if (args.number != tensors + 2 || args.names != nullptr) return false;
    try {
      const py::handle options = args[tensors + 1];
      py::tuple shape(3 * tensors + has_root_);
      py::handle tensor;
      for (size_t at = 0; at < tensors; ++at) {
        tensor = args[at + 1];
        if (has_list_) {
          if (!PyList_CheckExact(tensor.ptr()) || PyList_GET_SIZE(tensor.ptr()) != 1) return false;
          tensor = PyList_GET_ITEM(tensor.ptr(), 0);
        }
        if (!calls_->is_plain(tensor)) return false;
        shape[3 * at] = key.dtype.of(tensor);
        shape[3 * at + 1] = key.nbytes.of(tensor);
        shape[3 * at + 2] = key.is_cpu.of(tensor);
      }
      if (has_root_) shape[3 * tensors] = key.root.of(options);
      call.is_async = key.is_async.of(options);
      call.backend = key.get_backend.call(py::handle(args[0]), key.device.of(tensor));
      call.shape = std::move(shape);
      return PyObject_HasAttr(call.backend.ptr(), of_backend_.get()) == 1;
    } catch (py::error_already_set& error) {  // no options, no backend, or an older torch
      if (!error.matches(PyExc_Exception)) throw;
      return false;
    }
  }

  void record(const Arguments& args, const Call& sent, const py::object& result, int64_t issued) const {
    const Names& key = names();
    const py::object reference = checked(PyWeakref_NewRef(args[0], nullptr));
    PyObject* of_group = PyDict_GetItem(rows_.ptr(), reference.ptr());
    PyObject* known = of_group == nullptr ? nullptr : PyDict_GetItem(of_group, sent.shape.ptr());
    const py::object described = known == nullptr ? describe(args, sent) : py::reinterpret_borrow<py::object>(known);
    const py::handle on_device = PyTuple_GET_ITEM(described.ptr(), 1);
    Timeline& timeline = calls_->timeline;
    const bool waits_at_once = sent.is_async.ptr() == Py_False && on_device.ptr() == Py_False &&
                               reinterpret_cast<PyObject*>(Py_TYPE(result.ptr())) == calls_->work_type.ptr();
    if (!waits_at_once || PyUnicode_CompareWithASCIIString(timeline.phase.ptr(), "backward") == 0 ||
        PyObject_Size(calls_->queue.ptr()) > calls_->most_waiting) {
      const py::object row = checked(PyDict_Copy(PyTuple_GET_ITEM(described.ptr(), 0)));
      key.sent.call(calls_->recorder, row, on_device, sent.is_async, result, py::int_(issued));
      return;
    }
    timeline.begin_wait(described, issued);
    key.newest.set(calls_->recorder, result);
  }

  py::object describe(const Arguments& args, const Call& sent) const {
    py::tuple all(args.number);
    for (size_t at = 0; at < args.number; ++at) all[at] = py::reinterpret_borrow<py::object>(args[at]);
    return call(describe_, all, sent.shape);
  }

  std::shared_ptr<DirectCalls> calls_;
  py::object method_;
  Name of_backend_;
  bool has_list_, has_root_;
  py::dict rows_;        // weak reference of a group -> shape -> (row, on_device)
  py::object describe_;  // arguments, shape -> the same
};

// Stands for Work.wait where the newest communication is waited for, and leaves all others to `other`.
class DirectWait {
 public:
  DirectWait(std::shared_ptr<DirectCalls> calls, py::object method, py::object other)
      : calls_(std::move(calls)), method_(std::move(method)), other_(std::move(other)) {}

  py::object operator()(const Arguments& args) const {
    Timeline& timeline = calls_->timeline;
    if (!timeline.is_paused || args.number == 0 || !calls_->on_main() || !calls_->is_active() ||
        args[0] != names().newest.of(calls_->recorder).ptr())
      return args.pass(other_);
    PyObject* result = PyObject_Vectorcall(method_.ptr(), args.all, args.number, args.names);
    const auto end_wait = [&] { calls_->guard([&] { timeline.end_wait(); }); };
    if (result == nullptr) {
      const py::error_already_set error;
      end_wait();
      throw error;
    }
    py::object returned = py::reinterpret_steal<py::object>(result);
    end_wait();
    return returned;
  }

 private:
  std::shared_ptr<DirectCalls> calls_;
  py::object method_, other_;
};

// Return a function as a method of the class that it is assigned to: not by pybind11, which takes 2 us for each call.
template <class Function>
py::object as_method(Function function) {
  static PyMethodDef definition{
      "recorded",
      reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(
          +[](PyObject* self, PyObject* const* all, Py_ssize_t number, PyObject* by_name) -> PyObject* {
            const auto* function = static_cast<Function*>(PyCapsule_GetPointer(self, nullptr));
            try {
              return (*function)({all, static_cast<size_t>(number), by_name}).release().ptr();
            } catch (py::error_already_set& error) {
              error.restore();
            } catch (const std::exception& error) {
              PyErr_SetString(PyExc_RuntimeError, error.what());
            }
            return nullptr;
          })),
      METH_FASTCALL | METH_KEYWORDS, nullptr};
  const py::capsule capsule(new Function(std::move(function)),
                            [](void* pointer) { delete static_cast<Function*>(pointer); });
  const py::object built_in = checked(PyCFunction_New(&definition, capsule.ptr()));
  return checked(PyInstanceMethod_New(built_in.ptr()));
}

}  // namespace

void bind_recording(py::module_& module) {
  py::class_<Timeline>(module, "Timeline", "The events of the main thread of a rank.")
      .def(py::init<py::object, py::object, py::object, py::object, py::object, py::object>(), py::arg("queue"),
           py::arg("write"), py::arg("clock"), py::arg("busy"), py::arg("work"), py::arg("event"))
      .def_readonly("is_paused", &Timeline::is_paused, "True while the main thread is in a communication.")
      .def("write", &Timeline::write, py::arg("row"), "Write a row, after those that are not yet queued.")
      .def("flush", &Timeline::flush, "Queue the rows that are not yet queued.")
      .def_property("newest_event", &Timeline::newest_event, &Timeline::set_newest_event)
      .def_readonly("work", &Timeline::work)
      .def_readwrite("phase", &Timeline::phase)
      .def_readwrite("_waited", &Timeline::waited)
      .def_readonly("_last_compute", &Timeline::last_compute)
      .def("now", &Timeline::now, "Return the time, ns.")
      .def("pause", &Timeline::pause, "Close the running compute span: the main thread stops computing.")
      .def("resume", &Timeline::resume, "Open a compute span: the main thread computes again.")
      .def("leave_out", &Timeline::leave_out, py::arg("busy"),
           "Take ``busy`` ns of processor time out of the running span: they were the recorder's, not the script's.")
      .def("_follows", &Timeline::follows)
      .def("_add", &Timeline::add, py::arg("row"), py::arg("issued"), py::arg("after"))
      .def("done", &Timeline::done, py::arg("event"),
           "Note that the communication has completed now, if that was not known before. Any thread may call this.");
  py::class_<DirectCalls, std::shared_ptr<DirectCalls>>(module, "DirectCalls",
                                                        "Calls of collectives that are recorded without an operator.")
      .def(py::init<py::object, py::object, py::object, py::ssize_t, py::object, py::object, py::object, py::object,
                    py::tuple>(),
           py::arg("recorder"), py::arg("recording"), py::arg("queue"), py::arg("most_waiting"), py::arg("threads"),
           py::arg("stack_length"), py::arg("is_profiled"), py::arg("work_type"), py::arg("plain"))
      .def_readonly("is_sending", &DirectCalls::is_sending)
      .def("method",
           [](std::shared_ptr<DirectCalls> calls, py::object method, const std::string& of_backend, bool has_list,
              bool has_root, py::dict rows, py::object describe) {
             return as_method(DirectMethod(std::move(calls), std::move(method), of_backend, has_list, has_root,
                                           std::move(rows), std::move(describe)));
           })
      .def("wait", [](std::shared_ptr<DirectCalls> calls, py::object method, py::object other) {
        return as_method(DirectWait(std::move(calls), std::move(method), std::move(other)));
      });
}

}  // namespace topoflow

#pragma once
// No fmt here: CUDA sources include this header.
#include <stdexcept>
#include <string>

namespace shardbench {

/// A failure of the program or of a library it calls; the message names the file and line that noticed.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The user asked for something impossible or unreadable. The message is one line: what, which value, what is allowed.
class InputError : public Error {
  using Error::Error;
};

/// A configuration that is well formed but illegal for this model or machine (a `skipped` row in a sweep).
class IllegalConfig : public InputError {
  using InputError::InputError;
};

/// The device has no room; carries what was asked for and what was free.
class OutOfMemory : public Error {
 public:
  OutOfMemory(std::string const& message, double requested, double available)
      : Error(message), requested_bytes(requested), free_bytes(available) {}
  double requested_bytes;  ///< bytes that could not be had
  double free_bytes;       ///< bytes free at that moment
};

[[noreturn]] inline void throw_error(char const* file, int line, std::string const& message) {
  throw Error(std::string(file) + ':' + std::to_string(line) + ": " + message);
}

}  // namespace shardbench

/// Always on: library calls and states that must hold. `message` is built only on failure: "<problem> (<why>)".
#define VALIDATE(condition, message)                                            \
  do {                                                                          \
    if (!(condition)) ::shardbench::throw_error(__FILE__, __LINE__, (message)); \
  } while (false)

/// Programmer errors, checked in debug builds only.
#ifdef NDEBUG
#define EXPECT(condition) static_cast<void>(0)
#else
#define EXPECT(condition) VALIDATE(condition, "expected " #condition)
#endif

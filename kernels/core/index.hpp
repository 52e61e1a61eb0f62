#pragma once
#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardbench {

/// The place of one T in the table (IdVector<T>) that holds it. A type of its own, so that a tensor's number never
/// names a group; default: none. As a number it orders, counts and indexes what lies beside the table.
template <class T>
class Id {
 public:
  constexpr Id() = default;
  constexpr Id(std::integral auto value) : value_(static_cast<std::int32_t>(value)) {}
  constexpr bool valid() const { return value_ >= 0; }
  constexpr operator std::int32_t() const { return value_; }

 private:
  std::int32_t value_ = -1;
};

/// A table whose entries are named by Id<T>: what add() returns is what operator[] takes.
template <class T>
class IdVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  using std::vector<T>::operator[];
  T& operator[](Id<T> id) { return std::vector<T>::operator[](static_cast<std::size_t>(std::int32_t{id})); }
  T const& operator[](Id<T> id) const { return std::vector<T>::operator[](static_cast<std::size_t>(std::int32_t{id})); }
  /// Another table's number names nothing here.
  template <class U>
    requires(!std::same_as<T, U>)
  T& operator[](Id<U> id) const = delete;
  Id<T> add(T value) {
    this->push_back(std::move(value));
    return last();
  }
  /// Of the entry that was added last.
  Id<T> last() const { return Id<T>(this->size() - 1); }
};

/// Number of enumerators of an enum that ends with size_.
template <class E>
inline constexpr std::size_t enum_count = static_cast<std::size_t>(E::size_);

/// Every enumerator, in order.
template <class E>
constexpr std::array<E, enum_count<E>> enum_values() {
  std::array<E, enum_count<E>> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<E>(i);
  return values;
}

/// One T for each enumerator.
template <class E, class T>
struct EnumArray : std::array<T, enum_count<E>> {
  using std::array<T, enum_count<E>>::operator[];
  constexpr T& operator[](E key) { return (*this)[static_cast<std::size_t>(key)]; }
  constexpr T const& operator[](E key) const { return (*this)[static_cast<std::size_t>(key)]; }
};

/// The name of each enumerator; one too few or too many does not compile.
template <class E>
struct EnumNames : EnumArray<E, std::string_view> {
  template <class... Names>
    requires(sizeof...(Names) == enum_count<E>)
  constexpr EnumNames(Names... names) : EnumArray<E, std::string_view>{{std::string_view(names)...}} {}
};

}  // namespace shardbench

// The ground of the language test for C++: overloads, templates, containers, exceptions.
#include <map>
#include <memory>
#include <mpi.h>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace shapes {
class Shape {
public:
    explicit Shape(int sides) : sides_(sides) {}
    virtual ~Shape() {}
    virtual double area() const { return 0.0; }
    int sides() const { return sides_; }

protected:
    int sides_;
    static int made;
};
int Shape::made = 4;

class Square : public Shape {
public:
    explicit Square(double edge) : Shape(4), edge_(edge) {}
    double area() const override
    {
        return edge_ * edge_; // @area
    }

private:
    double edge_;
};
} // namespace shapes

template <typename T> T largest(T one, T other)
{
    return one < other ? other : one; // @largest
}

static int over(int value)
{
    return value + 1;
}

static double over(double value)
{
    return value / 2;
}

struct Pair {
    int key;
    std::string name;
    bool operator==(const Pair &other) const { return key == other.key; }
};

static int look(const std::vector<int> &numbers, const std::map<std::string, int> &ages)
{
    std::set<int> odd{1, 3, 5};
    std::string greeting = "hello";
    Pair pair{7, "seven"};
    std::unique_ptr<shapes::Shape> shape(new shapes::Square(3.0));
    shapes::Shape &base = *shape;
    int sum = static_cast<int>(odd.size() + numbers.size() + ages.size());
    sum += base.sides() + pair.key + static_cast<int>(greeting.size()); // @look
    sum += static_cast<int>(base.area());
    sum += over(sum) + static_cast<int>(over(1.0));
    sum += largest(sum, 3) + static_cast<int>(largest(1.5, 2.5));
    return sum;
}

static void fail(int code)
{
    if (code > 0)
        throw std::runtime_error("code " + std::to_string(code)); // @throw
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int result = look({1, 2, 3}, {{"ann", 30}, {"bob", 40}}); // @call
    try {
        fail(result);
    } catch (const std::exception &error) {
        result = 0; // @caught
    }
    MPI_Finalize();
    return result;
}
